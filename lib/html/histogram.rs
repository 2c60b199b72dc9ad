//! A histogram of integers in bounded memory, accurate to 1 in 128, and its bins.

/// Slots per power of two.
const STEPS: u64 = 128;

/// Counts how often numbers occur.
#[derive(Clone, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: f64,
    least: Option<u64>,
    most: u64,
}

/// One bar: the numbers from `from` up to, but excluding, `to`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bin {
    /// The smallest number.
    pub from: u64,
    /// The end.
    pub to: u64,
    /// How many numbers there are.
    pub count: u64,
    /// Whether it also counts all larger numbers.
    pub open: bool,
}

impl Histogram {
    /// Counts a number.
    pub fn add(&mut self, value: u64) {
        let at = slot(value);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.total += 1;
        self.sum += value as f64;
        self.least = Some(self.least.map_or(value, |least| least.min(value)));
        self.most = self.most.max(value);
    }

    /// How many numbers there are.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The smallest number; 0 if there is none.
    pub fn least(&self) -> u64 {
        self.least.unwrap_or(0)
    }

    /// The largest number; 0 if there is none.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// The mean; 0 if there are no numbers.
    pub fn mean(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum / self.total as f64 }
    }

    /// The quantile at `share`, accurate to 1 in 128.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (share * self.total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        at.map_or(0, value).clamp(self.least(), self.most)
    }

    /// About `bars` bins of equal width; a long tail goes into the last one.
    pub fn linear(&self, bars: u64) -> Vec<Bin> {
        if self.total == 0 {
            return Vec::new();
        }
        let end = self.quantile(0.99).max(1);
        let from = if self.least() * 3 < end { 0 } else { self.least() };
        let step = nice((end - from).div_ceil(bars)).max(1);
        let first = from / step * step;
        let mut bins: Vec<Bin> = (0..=(end - first) / step)
            .map(|i| Bin { from: first + i * step, to: first + (i + 1) * step, count: 0, open: false })
            .collect();
        self.fill(&mut bins);
        bins
    }

    /// `per_octave` bins per power of two, for values that span orders of magnitude.
    pub fn logarithmic(&self, per_octave: u32) -> Vec<Bin> {
        if self.total == 0 {
            return Vec::new();
        }
        let edge = |i: i64| 2_f64.powf(i as f64 / f64::from(per_octave)).round() as u64;
        let first = ((self.least().max(1) as f64).log2() * f64::from(per_octave)).floor() as i64;
        let end = self.quantile(0.999).max(1);
        let mut edges = vec![edge(first).min(self.least())];
        // Between small numbers there is no room for all steps.
        for next in (first + 1..).map(edge) {
            if edges.last().is_some_and(|last| next > *last) {
                edges.push(next);
            }
            if next > end {
                break;
            }
        }
        let mut bins: Vec<Bin> =
            edges.windows(2).map(|pair| Bin { from: pair[0], to: pair[1], count: 0, open: false }).collect();
        self.fill(&mut bins);
        bins
    }

    fn fill(&self, bins: &mut [Bin]) {
        for (at, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let value = value(at).clamp(self.least(), self.most);
            let bin = bins.partition_point(|bin| bin.to <= value).min(bins.len() - 1);
            bins[bin].count += count;
            bins[bin].open |= value >= bins[bin].to;
        }
    }
}

/// Numbers below 256 have one slot each; above, each power of two has 128 slots.
fn slot(value: u64) -> usize {
    if value < 2 * STEPS {
        return value as usize;
    }
    let shift = value.ilog2() - STEPS.ilog2();
    (u64::from(shift) * STEPS + (value >> shift)) as usize
}

/// The smallest number in a slot.
fn value(slot: usize) -> u64 {
    let slot = slot as u64;
    if slot < 2 * STEPS {
        return slot;
    }
    let shift = slot / STEPS - 1;
    (slot % STEPS + STEPS) << shift
}

/// The next of 1, 2, 5, 10, 20, 50 …
pub fn nice(value: u64) -> u64 {
    let power = 10_u64.pow(value.max(1).ilog10());
    [1, 2, 5, 10].map(|digit| digit * power).into_iter().find(|&nice| nice >= value).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_hold_their_numbers() {
        for number in (0..5000).chain([1 << 20, (1 << 40) + 12345, u64::MAX]) {
            let least = value(slot(number));
            assert!(least <= number && number - least <= number / 128, "{number}: {least}");
            assert_eq!(slot(least), slot(number));
        }
    }

    #[test]
    fn bars_lose_nothing() {
        let mut histogram = Histogram::default();
        (0..1000).for_each(|i| histogram.add(i * i % 700));
        histogram.add(1_000_000);
        for bins in [histogram.linear(30), histogram.logarithmic(4)] {
            assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 1001);
            assert!(bins.windows(2).all(|pair| pair[0].to == pair[1].from));
            assert!(bins.len() < 60 && bins.iter().rev().skip(1).all(|bin| !bin.open));
        }
        assert!(histogram.linear(30).last().unwrap().open);
        assert_eq!((histogram.least(), histogram.most()), (0, 1_000_000));
    }

    #[test]
    fn one_number_is_one_bar() {
        let mut histogram = Histogram::default();
        (0..3).for_each(|_| histogram.add(256));
        assert_eq!(histogram.linear(30).iter().filter(|bin| bin.count > 0).count(), 1);
        assert_eq!(histogram.quantile(0.5), 256);
        assert!(Histogram::default().linear(30).is_empty());
        for number in [0, 1, 2, 3, 1 << 40] {
            let mut histogram = Histogram::default();
            histogram.add(number);
            for bins in [histogram.linear(30), histogram.logarithmic(4)] {
                let full: Vec<&Bin> = bins.iter().filter(|bin| bin.count > 0).collect();
                assert!(full.len() == 1 && full[0].from <= number && number < full[0].to, "{number}: {bins:?}");
            }
        }
    }
}
