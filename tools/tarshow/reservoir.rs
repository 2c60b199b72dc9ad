//! A random choice of N from a stream of unknown length: each of its items is as likely as any.

use tarpipe::random::Random;

/// Says for each item of a stream which of N places it takes, if any.
pub struct Reservoir {
    places: usize,
    seen: usize,
    random: Random,
}

impl Reservoir {
    pub fn new(places: usize, seed: u64) -> Self {
        Reservoir { places, seen: 0, random: Random::new(seed) }
    }

    /// The place of the next item; who had it before is out.
    pub fn place(&mut self) -> Option<usize> {
        self.seen += 1;
        let place = if self.seen <= self.places { self.seen - 1 } else { self.random.below(self.seen) };
        (place < self.places).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_as_likely_as_any() {
        let mut chosen = [0_u32; 20];
        for seed in 0..4000 {
            let mut reservoir = Reservoir::new(5, seed);
            let mut places = [0; 5];
            for item in 0..20 {
                if let Some(place) = reservoir.place() {
                    places[place] = item;
                }
            }
            places.iter().for_each(|&item| chosen[item] += 1);
        }
        assert!(chosen.iter().all(|n| (850..1150).contains(n)), "{chosen:?}");
        assert_eq!(Reservoir::new(0, 1).place(), None);
    }
}
