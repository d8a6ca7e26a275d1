import unittest

class TotalTest(unittest.TestCase):
    def test_integers(self):
        self.assertEqual(total([1, 2, 3]), 6, "hidden-4711")
        self.assertTrue(total([4, 4]) == 8)

    def test_floats(self):
        self.assertAlmostEqual(total([0.5, 0.25]), 0.75)
        self.assertTrue(abs(total([1.5]) - 1.5) < 1e-6)
        self.assertIn(total([7]), [7])
        self.assertEqual([total([3])], [3])
        self.assertEqual({total([3]): 1}, {3: 1})

    def test_loop(self):
        for got in map(total, ([1], [2])):
            self.assertIn(got, [1, 2])
