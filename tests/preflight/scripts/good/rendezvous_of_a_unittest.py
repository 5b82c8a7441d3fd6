import os, unittest, torch, torch.distributed as dist
class T(unittest.TestCase):
    def setUp(self):
        os.environ["MASTER_ADDR"] = "localhost"
        os.environ["MASTER_PORT"] = "29512"
        dist.init_process_group("gloo", rank=0, world_size=1)
    def tearDown(self):
        dist.destroy_process_group()
    def test_a(self):
        t = torch.ones(1); dist.all_reduce(t)
        self.assertEqual(t.item(), 1.0)
if __name__ == "__main__":
    unittest.main()
