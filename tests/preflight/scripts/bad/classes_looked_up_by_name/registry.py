from fvcore.common.registry import Registry as OneStep
from mmengine.registry import Registry as Built


class TwoSteps:
    def __init__(self):
        self._entries = {}

    def _do_register(self, name, entry):
        assert name not in self._entries
        self._entries[name] = entry

    def register(self, entry=None):
        if entry is None:

            def note(entry):
                self._do_register(entry.__name__, entry)
                return entry

            return note
        self._do_register(entry.__name__, entry)
        return entry

    def get(self, name):
        return self._entries[name]


OWN = TwoSteps()
TRAINERS = OneStep("trainers")
LOOPS = Built("loops")
