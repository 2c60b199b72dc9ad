//! Pseudorandom numbers that are reproducible from a seed on every machine and
//! in every later version. The generator (SplitMix64) is written out here
//! because crates change theirs between versions.
//!
//! Not for secrets. Names of temporary files take their randomness from the
//! system instead (see `run::owner`).

/// A generator whose output is determined by its seed.
///
/// ```
/// use tarpipe::random::Random;
///
/// assert_eq!(Random::new(7).bits(), Random::new(7).bits());
/// assert!(Random::new(7).below(10) < 10);
/// ```
pub struct Random(u64);

impl Random {
    /// Starts the sequence of this seed. All seeds are equally good, 0
    /// included.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// The next number in `0..n`, uniform up to a bias of `n` / 2⁶⁴. `n` must
    /// not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// The next number in [0, 1), a multiple of 2⁻⁵³.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Shuffles `items` in place (Fisher-Yates): every order is equally likely.
    /// Takes one number per item.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_order_for_ever() {
        let mut items: Vec<u8> = (0..8).collect();
        Random::new(7).shuffle(&mut items);
        assert_eq!(Random::new(0).bits(), 0xe220_a839_7b1d_cdaf); // the published first value
        let mut again: Vec<u8> = (0..8).collect();
        Random::new(7).shuffle(&mut again);
        assert_eq!(items, again);
        items.sort_unstable();
        assert_eq!(items, (0..8).collect::<Vec<u8>>());
    }
}
