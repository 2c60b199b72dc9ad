//! The flags, and what they mean together.

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use tarpipe::cli::{Decoding, Held, Input, Output, Parallel, Talk, Usage};
use tarpipe::tally::MaxFailures;

use crate::encode::{Format, Quality};
use crate::fields::Work;
use crate::jpeg::{Settings, Subsampling};
use crate::options::{Icc, Options, Orient};
use crate::resample::Filter;
use crate::size::{Mode, Size};

/// Resize the images of a stream of samples and encode them again
///
/// Decodes, orients, resizes and encodes every image field of every sample, in order, on all cores.
/// Image formats are detected from the content (jpeg, png, webp, gif, bmp, tiff, ppm and pgm are
/// read); other fields pass unchanged. A sample with an image that cannot be processed is left out
/// and counted. The sample's json field gets width, height, original_width, original_height and
/// format; a second image of a sample has them under its field name.
///
/// Sizes follow img2dataset: the deciding side (the smaller for keep_ratio and center_crop, the
/// larger for border and keep_ratio_largest) becomes the size, and the other follows, rounded to the
/// nearest integer, halves to even.
///
/// Codes of images left out: decode, truncated, too_small, too_large_area, aspect, animated,
/// unsupported, bomb (more than 179 million pixels or 5,000 frames), memory (more than --memory),
/// no_image, boxes.
#[derive(Parser)]
#[command(name = "tarresize", version, after_long_help = EXAMPLES)]
pub struct Args {
    /// Size in pixels: one number, or width and height
    #[arg(short, long, value_name = "N|WxH", value_parser = parse_size)]
    size: Option<Size>,

    /// How to reach the size
    #[arg(short, long, value_name = "MODE", default_value = "keep_ratio")]
    mode: Mode,

    /// Do not enlarge: leave smaller images at their size
    #[arg(long)]
    only_if_bigger: bool,

    /// Filter for enlarging
    #[arg(long, value_name = "FILTER", default_value = "lanczos")]
    up: Filter,

    /// Filter for shrinking
    #[arg(long, value_name = "FILTER", default_value = "area")]
    down: Filter,

    /// Format to write: jpg, png, webp, or keep
    ///
    /// keep writes gif, bmp, tiff and the like as png. The field gets the extension of the format;
    /// if the sample already has that field, png becomes png.jpg.
    #[arg(long, value_name = "FORMAT", default_value = "jpg")]
    format: Wanted,

    /// Quality: 0 to 100 for jpg and webp [default: 95], 0 to 9 for the effort of png [default: 3]
    ///
    /// With --format keep it applies to jpg and webp.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=100))]
    quality: Option<u8>,

    /// Keep the bytes of images that need no change, after decoding them as a check
    #[arg(long)]
    skip_reencode: bool,

    /// Chroma subsampling of jpg [default: 420]
    #[arg(long, value_name = "KIND")]
    subsampling: Option<Subsampling>,

    /// Write progressive jpg
    #[arg(long)]
    progressive: bool,

    /// Write no EXIF and no ICC profile
    ///
    /// By default EXIF is kept, with its orientation corrected.
    #[arg(long)]
    strip: bool,

    /// Skip images with a side shorter than N
    #[arg(long, value_name = "N")]
    min_side: Option<u32>,

    /// Skip images of more than N pixels, before decoding
    #[arg(long, value_name = "N")]
    max_area: Option<u64>,

    /// Skip images whose long side is more than X times the short one
    #[arg(long, value_name = "X")]
    max_aspect: Option<f64>,

    /// Blur the boxes listed under KEY in the sample's json
    ///
    /// A list of [x0, y0, x1, y1], each from 0 to 1, relative to the image as displayed. A sample
    /// without the key, or with any other value, fails as boxes.
    #[arg(long, value_name = "KEY")]
    blur: Option<String>,

    /// What to do with an EXIF orientation
    #[arg(long, value_name = "WHAT", default_value = "apply")]
    orient: Orient,

    /// What to do with an ICC profile
    #[arg(long, value_name = "WHAT", default_value = "srgb")]
    icc: Icc,

    /// Flatten transparent images onto a colour: white, black, gray or #rrggbb
    ///
    /// By default jpg, which has no transparency, gets white; png and webp stay transparent.
    #[arg(long, value_name = "COLOR", value_parser = parse_color)]
    background: Option<[u8; 3]>,

    /// Keep grayscale images, or convert them to RGB
    #[arg(long, value_name = "COLOR", default_value = "keep")]
    color: Channels,

    /// Take the first frame of an animated image, or reject the image
    #[arg(long, value_name = "WHAT", default_value = "first")]
    animated: Animated,

    /// Keep the decodable part of truncated images
    ///
    /// A truncated WebP cannot be decoded at all.
    #[arg(long)]
    allow_truncated: bool,

    /// Fields that are images, by extension or whole name
    #[arg(long, value_name = "FIELDS", default_value = "jpg jpeg png webp gif bmp tif tiff ppm pgm pnm")]
    fields: String,

    /// Write the EXIF tags into the sample's json, under exif
    #[arg(long)]
    exif: bool,

    /// What to do with a sample whose image fails: skip it, keep it unchanged, pass only its json, or abort the run
    ///
    /// pass is for a tool at the end of the pipe that records every sample, such as tardataset: the
    /// json gets status failed, tool, code and error_message. Samples that fetch --pass-failed has
    /// marked as failed pass unchanged.
    #[arg(long, value_name = "WHAT", default_value = "skip")]
    pub on_error: OnError,

    /// Exit with status 3 if more than N samples (or P%) fail [default: if all fail]
    #[arg(long, value_name = "N|P%")]
    pub max_failures: Option<MaxFailures>,

    /// Write a report with one row per image to FILE (.jsonl, .csv or .parquet)
    #[arg(long, value_name = "FILE")]
    pub report: Option<String>,

    #[command(flatten)]
    pub held: Held,
    #[command(flatten)]
    pub decoding: Decoding,
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub parallel: Parallel,
    #[command(flatten)]
    pub talk: Talk,
}

const EXAMPLES: &str = "Examples:
  # The smaller side to 256, as in many training sets
  tarresize -s 256 --quality 95 raw.tar -o small.tar

  # Shrink only images that are too large; keep the bytes of all others
  tarresize -s 1024 -m keep_ratio_largest --only-if-bigger --skip-reencode --format keep raw.tar -o capped.tar

  # Squares with blurred faces, and a report
  tarresize -s 384 -m center_crop --blur face_boxes --report squares.csv raw.tar -o squares.tar";

/// The format that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Wanted {
    Jpg,
    Png,
    Webp,
    Keep,
}

/// What becomes of gray.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Channels {
    Keep,
    Rgb,
}

/// What becomes of animations.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Animated {
    First,
    Reject,
}

/// What becomes of a sample whose image fails.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum OnError {
    Skip,
    Keep,
    Pass,
    Abort,
}

impl Args {
    /// What is done with every sample, once the flags agree with each other.
    /// `memory` is what one image may need.
    pub fn work(&self, memory: u64) -> Result<Work> {
        let options = Options {
            mode: self.mode,
            size: self.wanted_size()?,
            only_if_bigger: self.only_if_bigger,
            up: self.up,
            down: self.down,
            format: self.wanted_format(),
            quality: self.wanted_quality()?,
            skip_reencode: self.skip_reencode,
            strip: self.strip,
            min_side: self.min_side,
            max_area: self.max_area,
            max_aspect: self.max_aspect,
            orient: self.orient,
            icc: self.icc,
            background: self.background,
            force_rgb: self.color == Channels::Rgb,
            reject_animated: self.animated == Animated::Reject,
            allow_truncated: self.allow_truncated,
        };
        if self.strip && (self.orient == Orient::Keep || self.icc == Icc::Keep) {
            bail!(Usage("--strip would drop what --orient keep or --icc keep asks for".into()));
        }
        let fields: Vec<String> = self.fields.split_whitespace().map(str::to_owned).collect();
        if fields.is_empty() {
            bail!(Usage("--fields names no field".into()));
        }
        Ok(Work { options, fields, blur: self.blur.clone(), exif: self.exif, memory })
    }

    fn wanted_size(&self) -> Result<Size> {
        match (self.mode, self.size) {
            (Mode::No, None) => Ok(Size::new(1, 1)),
            (Mode::No, Some(_)) => bail!(Usage("-m no keeps the size: leave out -s".into())),
            (_, None) => bail!(Usage("no size: give -s N or -s WxH, or keep sizes with -m no".into())),
            (_, Some(size)) => Ok(size),
        }
    }

    fn wanted_format(&self) -> Option<Format> {
        match self.format {
            Wanted::Jpg => Some(Format::Jpg),
            Wanted::Png => Some(Format::Png),
            Wanted::Webp => Some(Format::Webp),
            Wanted::Keep => None,
        }
    }

    fn wanted_quality(&self) -> Result<Quality> {
        let writes_jpg = matches!(self.format, Wanted::Jpg | Wanted::Keep);
        if !writes_jpg && (self.progressive || self.subsampling.is_some()) {
            bail!(Usage("--progressive and --subsampling are for jpg: use --format jpg or keep".into()));
        }
        let png = self.quality.filter(|_| self.format == Wanted::Png);
        if png.is_some_and(|effort| effort > 9) {
            bail!(Usage("--quality is 0 to 9 for png".into()));
        }
        let quality = self.quality.unwrap_or(95);
        let subsampling = self.subsampling.unwrap_or(Subsampling::Half);
        let jpeg = Settings { quality, subsampling, progressive: self.progressive };
        Ok(Quality { jpeg, webp: quality, png: png.unwrap_or(3) })
    }
}

fn parse_size(text: &str) -> Result<Size, String> {
    let (width, height) = text.split_once(['x', 'X']).unwrap_or((text, text));
    let side = |text: &str| text.parse().ok().filter(|side| (1..=65_500).contains(side));
    match (side(width), side(height)) {
        (Some(width), Some(height)) => Ok(Size::new(width, height)),
        _ => Err("not a size (write 256 or 640x480, up to 65500)".into()),
    }
}

fn parse_color(text: &str) -> Result<[u8; 3], String> {
    let wrong = || "not a colour (write white, black, gray or #rrggbb)".to_owned();
    let rgb = match text {
        "white" => 0xff_ff_ff,
        "black" => 0,
        "gray" => 0x80_80_80,
        _ => {
            let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6).ok_or_else(wrong)?;
            // from_str_radix takes a sign for a digit.
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(wrong());
            }
            u32::from_str_radix(digits, 16).map_err(|_| wrong())?
        }
    };
    let [_, red, green, blue] = rgb.to_be_bytes();
    Ok([red, green, blue])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_one_number_or_two() {
        assert_eq!(parse_size("256"), Ok(Size::new(256, 256)));
        assert_eq!(parse_size("640x480"), Ok(Size::new(640, 480)));
        for wrong in ["0", "x", "256x", "-1", "70000", "1x2x3"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn colors_have_names_or_six_digits() {
        assert_eq!((parse_color("white"), parse_color("#0a0B0c")), (Ok([255; 3]), Ok([10, 11, 12])));
        assert!(parse_color("#fff").is_err() && parse_color("#+12345").is_err());
    }
}
