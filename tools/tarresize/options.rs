//! Everything that decides what becomes of an image.

use clap::ValueEnum;

use crate::encode::{Format, Quality};
use crate::resample::Filter;
use crate::size::{Mode, Size};

/// What is done with an EXIF orientation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Orient {
    /// Turn the pixels, so that every program sees them upright
    Apply,
    /// Leave the pixels and keep the tag
    Keep,
    /// Leave the pixels and drop the tag
    Ignore,
}

/// What is done with an ICC profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Icc {
    /// Convert the colours to sRGB and drop the profile
    Srgb,
    /// Leave the colours and keep the profile
    Keep,
    /// Leave the colours and drop the profile
    Ignore,
}

/// Everything that decides what becomes of an image.
#[derive(Clone, Debug)]
pub struct Options {
    pub mode: Mode,
    pub size: Size,
    pub only_if_bigger: bool,
    pub up: Filter,
    pub down: Filter,
    /// None keeps the format.
    pub format: Option<Format>,
    pub quality: Quality,
    pub skip_reencode: bool,
    pub strip: bool,
    pub min_side: Option<u32>,
    pub max_area: Option<u64>,
    pub max_aspect: Option<f64>,
    pub orient: Orient,
    pub icc: Icc,
    pub background: Option<[u8; 3]>,
    pub force_rgb: bool,
    pub reject_animated: bool,
    pub allow_truncated: bool,
}
