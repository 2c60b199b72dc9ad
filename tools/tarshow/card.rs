//! What is shown of a sample as a picture: its key, its caption and a thumbnail.

use std::sync::Arc;

use image::RgbImage;
use tarpipe::run::memory::{self, Budget};
use tarpipe::sample::{Member, Sample};

use crate::args::Args;
use crate::columns::{Column, Found, View, text_of};
use crate::kind::image_format;
use crate::picture;
use crate::readable::clean;

/// A caption is no longer than this, in characters: some are whole pages.
const MAX_CAPTION: usize = 2000;

/// One sample to look at.
pub struct Card {
    pub key: String,
    pub caption: String,
    /// The thumbnail, or a few words on why there is none.
    pub picture: Result<RgbImage, &'static str>,
}

/// How cards are made.
#[derive(Clone)]
pub struct Maker {
    image: Option<Column>,
    caption: Column,
    width: u32,
    height: u32,
    memory: Arc<Budget>,
}

impl Maker {
    /// Cards with thumbnails of at most these sides.
    pub fn new(args: &Args, width: u32, height: u32) -> Self {
        let memory = Budget::new(args.memory.unwrap_or_else(memory::default_limit));
        Maker { image: args.image.clone(), caption: args.caption.clone(), width, height, memory }
    }

    pub fn card(&self, sample: &Sample) -> Card {
        let picture = self.image(sample).ok_or("no image");
        let picture =
            picture.and_then(|member| picture::thumbnail(&member.data, self.width, self.height, &self.memory));
        let caption = self.caption(sample).or_else(|| class(sample)).unwrap_or_default();
        Card { key: clean(&sample.key), caption, picture }
    }

    /// The member that is drawn: the one asked for, else the first image.
    pub fn image<'a>(&self, sample: &'a Sample) -> Option<&'a Member> {
        match &self.image {
            None => sample.members.iter().find(|member| image_format(&member.data).is_some()),
            Some(column) => match View::new(sample).find(column) {
                Ok(Some(Found::Field(member))) => Some(member),
                _ => None,
            },
        }
    }

    /// The text under the picture. A field that cannot be read has none.
    pub fn caption(&self, sample: &Sample) -> Option<String> {
        let text = match View::new(sample).find(&self.caption).ok()?? {
            Found::Field(member) => String::from_utf8_lossy(&member.data).into_owned(),
            Found::Value(value) => text_of(&value),
        };
        Some(text)
    }
}

fn class(sample: &Sample) -> Option<String> {
    sample.get("cls").map(|member| String::from_utf8_lossy(&member.data).into_owned())
}

impl Card {
    /// The start of the caption on one line, without anything that acts.
    pub fn short_caption(&self) -> String {
        let head: String = self.caption.chars().take(MAX_CAPTION).collect();
        let mut line = clean(&head.split_whitespace().collect::<Vec<_>>().join(" "));
        if head.len() < self.caption.len() {
            line.push('…');
        }
        line
    }
}
