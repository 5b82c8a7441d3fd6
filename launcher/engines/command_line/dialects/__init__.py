"""Texts of PowerShell, cmd.exe, csh and fish as a POSIX shell writes them. Pure."""
