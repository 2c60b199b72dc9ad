//! The options that apply to every image, after the flags have been checked against each other.

use clap::ValueEnum;

use crate::tarresize::formats::encode::{Quality, TargetFormat};
use crate::tarresize::geometry::{PixelSize, ResizeMode};
use crate::tarresize::pixels::resample::Filter;

/// What to do with an EXIF orientation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrientationAction {
    /// Rotate the pixels, so that every program shows them upright
    Apply,
    /// Leave the pixels and keep the tag
    Keep,
    /// Leave the pixels and drop the tag
    Ignore,
}

/// What to do with an ICC profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IccAction {
    /// Convert the colours to sRGB and drop the profile
    Srgb,
    /// Leave the colours and keep the profile
    Keep,
    /// Leave the colours and drop the profile
    Ignore,
}

/// The options that apply to every image.
#[derive(Clone, Debug)]
pub struct ImageOptions {
    pub mode: ResizeMode,
    pub size: PixelSize,
    pub only_if_bigger: bool,
    pub up: Filter,
    pub down: Filter,
    /// `None` keeps the input format.
    pub format: Option<TargetFormat>,
    pub quality: Quality,
    pub skip_reencode: bool,
    pub strip: bool,
    pub min_side: Option<u32>,
    pub max_area: Option<u64>,
    pub max_aspect: Option<f64>,
    pub orient: OrientationAction,
    pub icc: IccAction,
    pub background: Option<[u8; 3]>,
    pub force_rgb: bool,
    pub reject_animated: bool,
    pub allow_truncated: bool,
}
