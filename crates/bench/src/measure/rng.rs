//! Random generators with one word of state: fast, and the same sequence for the same seed on every machine.
//!
//! Figures that depend on a seed, and guests with a copy of a generator, rely on these sequences: do not change them.

/// Odd constant of splitmix64 (2⁶⁴ divided by the golden ratio); spreads the bits of small seeds.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes the bits of a seed (one step of splitmix64), so that generators with neighbouring seeds are not correlated.
pub(crate) const fn splitmix64(seed: u64) -> u64 {
    let seed = seed.wrapping_add(GOLDEN);
    let seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}

/// A xorshift64 generator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XorShift(u64);

impl XorShift {
    /// Creates a generator with a state, which must not be 0.
    pub(crate) const fn new(state: u64) -> Self {
        Self(state)
    }

    #[inline]
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// A xorshift64* generator: its low bits are better than those of [`XorShift`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct XorShiftStar(u64);

impl XorShiftStar {
    /// Creates a generator with a state, which must not be 0.
    pub(crate) const fn new(state: u64) -> Self {
        Self(state)
    }

    #[inline]
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// A linear congruential generator with the constants of MMIX; use its high bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lcg(u64);

impl Lcg {
    pub(crate) const fn new(state: u64) -> Self {
        Self(state)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequences_are_the_published_ones() {
        let (mut plain, mut star, mut lcg) = (XorShift::new(1), XorShiftStar::new(1), Lcg::new(1));

        assert_eq!(splitmix64(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!([plain.next(), plain.next()], [0x0000_0000_4082_2041, 0x1000_4106_0c01_1441]);
        assert_eq!([star.next(), star.next()], [0x47e4_ce4b_896c_dd1d, 0xabcf_a6a8_e079_651d]);
        assert_eq!([lcg.next(), lcg.next()], [0x6c57_6fac_43fd_007c, 0x8268_86b3_864a_1b1b]);
    }
}
