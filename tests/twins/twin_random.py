"""The random numbers of csrc/base/rng.h."""

MASK = 2**64 - 1


class Random:
    """xoshiro256++, seeded by splitmix64."""

    def __init__(self, seed):
        self.s = []
        for _ in range(4):
            seed = (seed + 0x9E3779B97F4A7C15) & MASK
            z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
            self.s.append(z ^ (z >> 31))

    def next(self):
        def rotl(x, k):
            return ((x << k) | (x >> (64 - k))) & MASK

        s = self.s
        out = (rotl((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotl(s[3], 45)
        return out

    def uniform(self):
        return (self.next() >> 11) * 2.0**-53

    def below(self, n):
        m = self.next() * n
        while (m & MASK) < (2**64 - n) % n:
            m = self.next() * n
        return m >> 64
