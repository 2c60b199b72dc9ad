//! A sample as a picture: key, caption and thumbnail.

use std::sync::Arc;

use image::RgbImage;
use tarpipe::run::memory::{self, MemoryBudget};
use tarpipe::sample::{Member, Sample};

use crate::tarshow::args::Args;
use crate::tarshow::columns::{FieldColumn, FoundValue, SampleValues, text_of};
use crate::tarshow::content::image_format;
use crate::tarshow::pictures::thumbnail;
use crate::tarshow::text::printable::clean;

/// The longest caption, in characters; some are whole pages.
const MAX_CAPTION: usize = 2000;

/// A sample to look at.
pub struct SampleCard {
    pub key: String,
    pub caption: String,
    /// The thumbnail, or a few words on why there is none.
    pub picture: Result<RgbImage, &'static str>,
}

/// Makes cards from samples.
#[derive(Clone)]
pub struct CardMaker {
    image: Option<FieldColumn>,
    caption: FieldColumn,
    width: u32,
    height: u32,
    memory: Arc<MemoryBudget>,
}

impl CardMaker {
    /// Makes cards with thumbnails of at most this size.
    pub fn new(args: &Args, width: u32, height: u32) -> Self {
        let memory = MemoryBudget::new(args.memory.unwrap_or_else(memory::default_limit));
        CardMaker { image: args.image.clone(), caption: args.caption.clone(), width, height, memory }
    }

    pub fn card(&self, sample: &Sample) -> SampleCard {
        let picture = self.image(sample).ok_or("no image");
        let picture =
            picture.and_then(|member| thumbnail::thumbnail(&member.data, self.width, self.height, &self.memory));
        let caption = self.caption(sample).or_else(|| class(sample)).unwrap_or_default();
        SampleCard { key: clean(&sample.key), caption, picture }
    }

    /// The member to draw: the one requested, else the first image.
    pub fn image<'a>(&self, sample: &'a Sample) -> Option<&'a Member> {
        match &self.image {
            None => sample.members.iter().find(|member| image_format(&member.data).is_some()),
            Some(column) => match SampleValues::new(sample).find(column) {
                Ok(Some(FoundValue::Field(member))) => Some(member),
                _ => None,
            },
        }
    }

    /// The text under the picture; `None` if the field is missing or unreadable.
    pub fn caption(&self, sample: &Sample) -> Option<String> {
        let text = match SampleValues::new(sample).find(&self.caption).ok()?? {
            FoundValue::Field(member) => String::from_utf8_lossy(&member.data).into_owned(),
            FoundValue::Value(value) => text_of(&value),
        };
        Some(text)
    }
}

fn class(sample: &Sample) -> Option<String> {
    sample.get("cls").map(|member| String::from_utf8_lossy(&member.data).into_owned())
}

impl SampleCard {
    /// The start of the caption on one line, with control characters escaped.
    pub fn short_caption(&self) -> String {
        let head: String = self.caption.chars().take(MAX_CAPTION).collect();
        let mut line = clean(&head.split_whitespace().collect::<Vec<_>>().join(" "));
        if head.len() < self.caption.len() {
            line.push('…');
        }
        line
    }
}
