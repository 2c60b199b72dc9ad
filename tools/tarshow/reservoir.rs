//! Reservoir sampling: a uniform random choice of N items from a stream of unknown length.

use tarpipe::random::Random;

/// Decides for each item of a stream which of N slots it takes, if any.
pub struct Reservoir {
    slots: usize,
    seen: usize,
    random: Random,
}

impl Reservoir {
    pub fn new(slots: usize, seed: u64) -> Self {
        Reservoir { slots, seen: 0, random: Random::new(seed) }
    }

    /// The slot of the next item; it replaces the item that had the slot before.
    pub fn next_slot(&mut self) -> Option<usize> {
        self.seen += 1;
        let slot = if self.seen <= self.slots { self.seen - 1 } else { self.random.below(self.seen) };
        (slot < self.slots).then_some(slot)
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
            let mut chosen_items = [0; 5];
            for item in 0..20 {
                if let Some(slot) = reservoir.next_slot() {
                    chosen_items[slot] = item;
                }
            }
            chosen_items.iter().for_each(|&item| chosen[item] += 1);
        }
        assert!(chosen.iter().all(|n| (850..1150).contains(n)), "{chosen:?}");
        assert_eq!(Reservoir::new(0, 1).next_slot(), None);
    }
}
