//! Totals over all samples, in bounded memory.

use std::collections::BTreeMap;

use tarpipe::html::Histogram;

use super::sample_facts::{FieldFacts, GalleryItem, SampleFacts};

/// Further field names are counted together, since names are untrusted.
const MAX_FIELDS: usize = 500;
/// The maximum number of content types per field.
const MAX_KINDS: usize = 8;

/// The value of a square image: the middle of a bin that is an eighth of an octave wide.
pub const ASPECT_ONE: f64 = 1024.0 * 1.044_273_782_427_413_8;

/// Totals over all samples.
#[derive(Default)]
pub struct DatasetSummary {
    pub samples: u64,
    pub bytes: u64,
    pub fields: Vec<FieldCount>,
    /// Members of fields that are not listed.
    pub other_fields: u64,
    pub images: u64,
    pub unreadable: u64,
    pub widths: Histogram,
    pub heights: Histogram,
    /// Width divided by height, times [`ASPECT_ONE`].
    pub aspects: Histogram,
    pub image_bytes: Histogram,
    pub sample_bytes: Histogram,
    pub caption_chars: Histogram,
    pub gallery: Vec<Option<GalleryItem>>,
    first_key: String,
}

/// The totals of one field.
pub struct FieldCount {
    pub name: String,
    pub samples: u64,
    pub bytes: Histogram,
    pub total_bytes: u64,
    pub kinds: BTreeMap<&'static str, u64>,
    /// The first sample without it.
    pub first_missing: Option<String>,
    /// The last sample that had it, counted from 1.
    last: u64,
}

impl DatasetSummary {
    /// Creates a summary with this many slots in its gallery.
    pub fn new(gallery: usize) -> Self {
        DatasetSummary { gallery: (0..gallery).map(|_| None).collect(), ..DatasetSummary::default() }
    }

    /// Adds a sample; samples arrive in order.
    pub fn add(&mut self, facts: SampleFacts) {
        if self.samples == 0 {
            self.first_key.clone_from(&facts.key);
        }
        self.samples += 1;
        let bytes = facts.fields.iter().map(|field| field.bytes).sum();
        self.bytes += bytes;
        self.sample_bytes.add(bytes);
        facts.fields.iter().for_each(|field| self.add_field(field));
        for field in &mut self.fields {
            if field.last != self.samples && field.first_missing.is_none() {
                field.first_missing = Some(facts.key.clone());
            }
        }
        if let Some(image) = &facts.image {
            self.images += 1;
            self.image_bytes.add(image.bytes);
            match image.size {
                Some(size) => self.add_size(size),
                None => self.unreadable += 1,
            }
        }
        if let Some(chars) = facts.caption_chars {
            self.caption_chars.add(chars);
        }
        if let Some((slot, item)) = facts.chosen {
            self.gallery[slot] = Some(item);
        }
    }

    fn add_size(&mut self, (width, height): (u32, u32)) {
        self.widths.add(u64::from(width));
        self.heights.add(u64::from(height));
        self.aspects.add((f64::from(width) / f64::from(height.max(1)) * ASPECT_ONE).round() as u64);
    }

    fn add_field(&mut self, field: &FieldFacts) {
        let at = self.fields.iter().position(|known| known.name == field.name);
        let at = match at {
            None if self.fields.len() >= MAX_FIELDS => {
                self.other_fields += 1;
                return;
            }
            None => {
                self.fields.push(FieldCount::new(&field.name, (self.samples > 1).then(|| self.first_key.clone())));
                self.fields.len() - 1
            }
            Some(at) => at,
        };
        let count = &mut self.fields[at];
        count.samples += 1;
        count.last = self.samples;
        count.bytes.add(field.bytes);
        count.total_bytes += field.bytes;
        if count.kinds.len() < MAX_KINDS || count.kinds.contains_key(field.kind) {
            *count.kinds.entry(field.kind).or_default() += 1;
        }
    }
}

impl FieldCount {
    fn new(name: &str, first_missing: Option<String>) -> Self {
        let (name, bytes, kinds) = (name.to_owned(), Histogram::default(), BTreeMap::new());
        FieldCount { name, samples: 0, bytes, total_bytes: 0, kinds, first_missing, last: 0 }
    }

    /// The content types, most frequent first.
    pub fn holds(&self) -> String {
        let mut kinds: Vec<(&str, u64)> = self.kinds.iter().map(|(kind, n)| (*kind, *n)).collect();
        kinds.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        kinds.iter().take(3).map(|(kind, _)| *kind).collect::<Vec<_>>().join(", ")
    }
}
