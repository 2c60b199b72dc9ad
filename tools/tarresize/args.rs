//! The command line: every flag, and the checks on how flags combine.

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use tarpipe::cli::{DecodingFlags, InputFlags, OutputFlags, ParallelFlags, SampleLimit, Usage, Verbosity};
use tarpipe::tally::MaxFailures;
use tarpipe::value::list::List;

use crate::tarresize::formats::encode::{Quality, TargetFormat};
use crate::tarresize::geometry::{PixelSize, ResizeMode};
use crate::tarresize::jpeg::{JpegSettings, Subsampling};
use crate::tarresize::options::{IccAction, ImageOptions, OrientationAction};
use crate::tarresize::pixels::resample::Filter;
use crate::tarresize::sample_resizer::SampleResizer;

/// Resize the images of a stream of samples and encode them again
///
/// Decodes, orients, resizes and encodes every image field of every sample, in order, on all cores.
/// Image formats are detected from the content (jpeg, png, webp, gif, avif, tiff, bmp, jpeg 2000,
/// jpeg xl, ppm and pgm are read); other fields pass unchanged. A sample with an image that cannot be processed is left out
/// and counted. The sample's json field gets width, height, original_width, original_height and
/// format; a second image of a sample has them under its field name.
///
/// Sizes follow img2dataset: the reference side (the smaller for keep_ratio and center_crop, the
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
    size: Option<PixelSize>,

    /// How to reach the size
    #[arg(short, long, value_name = "MODE", default_value = "keep_ratio")]
    mode: ResizeMode,

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
    /// keep writes gif, avif, tiff and the like as png. The field gets the extension of the format;
    /// if the sample already has that field, png becomes png.jpg.
    #[arg(long, value_name = "FORMAT", default_value = "jpg")]
    format: FormatChoice,

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
    /// A list of [x0, y0, x1, y1], each from 0 to 1, relative to the image as displayed. A margin
    /// around each box, 10 % of its longer side, is blurred too. A sample without the key, or with
    /// any other value, fails as boxes.
    #[arg(long, value_name = "KEY")]
    blur: Option<String>,

    /// What to do with an EXIF orientation
    #[arg(long, value_name = "WHAT", default_value = "apply")]
    orient: OrientationAction,

    /// What to do with an ICC profile
    #[arg(long, value_name = "WHAT", default_value = "srgb")]
    icc: IccAction,

    /// Flatten transparent images onto a colour: white, black, gray or #rrggbb
    ///
    /// By default jpg, which has no transparency, gets white; png and webp stay transparent.
    #[arg(long, value_name = "COLOR", value_parser = parse_color)]
    background: Option<[u8; 3]>,

    /// Keep grayscale images, or convert them to RGB
    #[arg(long, value_name = "COLOR", default_value = "keep")]
    color: ColorChoice,

    /// Take the first frame of an animated image, or reject the image
    #[arg(long, value_name = "WHAT", default_value = "first")]
    animated: AnimationChoice,

    /// Keep the decodable part of truncated images
    ///
    /// A truncated WebP cannot be decoded at all.
    #[arg(long)]
    allow_truncated: bool,

    /// Fields that are images, by extension or whole name
    ///
    /// A list, separated by commas or blanks.
    #[arg(
        long,
        value_name = "FIELDS",
        default_value = "jpg jpeg png webp gif avif bmp tif tiff jp2 j2k jpf jpx jxl ppm pgm pnm pam"
    )]
    fields: List,

    /// Write the EXIF tags into the sample's json, under exif
    #[arg(long)]
    exif: bool,

    /// What to do with a sample whose image fails: skip it, keep it unchanged, pass only its json, or abort the run
    ///
    /// pass is for a tool at the end of the pipe that records every sample, such as tardataset: the
    /// json gets status failed, tool, code and error_message. Samples that fetch --pass-failed has
    /// marked as failed pass unchanged.
    #[arg(long, value_name = "WHAT", default_value = "skip")]
    pub on_error: OnImageError,

    /// Exit with status 3 if more than N samples (or P%) fail [default: if all fail]
    #[arg(long, value_name = "N|P%")]
    pub max_failures: Option<MaxFailures>,

    /// Write a report with one row per image to FILE (.jsonl, .csv or .parquet)
    #[arg(long, value_name = "FILE")]
    pub report: Option<String>,

    #[command(flatten)]
    pub held: SampleLimit,
    #[command(flatten)]
    pub decoding: DecodingFlags,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub parallel: ParallelFlags,
    #[command(flatten)]
    pub talk: Verbosity,
}

const EXAMPLES: &str = "Examples:
  # The smaller side to 256, as in many training sets
  tarresize -s 256 --quality 95 raw.tar -o small.tar

  # Shrink only images that are too large; keep the bytes of all others
  tarresize -s 1024 -m keep_ratio_largest --only-if-bigger --skip-reencode --format keep raw.tar -o capped.tar

  # Squares with blurred faces, and a report
  tarresize -s 384 -m center_crop --blur face_boxes --report squares.csv raw.tar -o squares.tar";

/// The values of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum FormatChoice {
    Jpg,
    Png,
    Webp,
    Keep,
}

/// The values of `--color`.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum ColorChoice {
    Keep,
    Rgb,
}

/// The values of `--animated`.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum AnimationChoice {
    First,
    Reject,
}

/// The values of `--on-error`.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum OnImageError {
    Skip,
    Keep,
    Pass,
    Abort,
}

impl Args {
    /// Checks how the flags combine and returns what to do with every sample. `memory` is the limit for one image.
    pub fn sample_resizer(&self, memory: u64) -> Result<SampleResizer> {
        let options = ImageOptions {
            mode: self.mode,
            size: self.target_size()?,
            only_if_bigger: self.only_if_bigger,
            up: self.up,
            down: self.down,
            format: self.target_format(),
            quality: self.encoder_quality()?,
            skip_reencode: self.skip_reencode,
            strip: self.strip,
            min_side: self.min_side,
            max_area: self.max_area,
            max_aspect: self.max_aspect,
            orient: self.orient,
            icc: self.icc,
            background: self.background,
            force_rgb: self.color == ColorChoice::Rgb,
            reject_animated: self.animated == AnimationChoice::Reject,
            allow_truncated: self.allow_truncated,
        };
        if self.strip && (self.orient == OrientationAction::Keep || self.icc == IccAction::Keep) {
            bail!(Usage("--strip conflicts with --orient keep and --icc keep".into()));
        }
        if self.fields.is_empty() {
            bail!(Usage("--fields is empty".into()));
        }
        Ok(SampleResizer { options, fields: self.fields.to_vec(), blur: self.blur.clone(), exif: self.exif, memory })
    }

    fn target_size(&self) -> Result<PixelSize> {
        match (self.mode, self.size) {
            (ResizeMode::No, None) => Ok(PixelSize::new(1, 1)),
            (ResizeMode::No, Some(_)) => bail!(Usage("-m no keeps the size; remove -s".into())),
            (_, None) => bail!(Usage("missing size; give -s N or -s WxH, or keep sizes with -m no".into())),
            (_, Some(size)) => Ok(size),
        }
    }

    fn target_format(&self) -> Option<TargetFormat> {
        match self.format {
            FormatChoice::Jpg => Some(TargetFormat::Jpg),
            FormatChoice::Png => Some(TargetFormat::Png),
            FormatChoice::Webp => Some(TargetFormat::Webp),
            FormatChoice::Keep => None,
        }
    }

    fn encoder_quality(&self) -> Result<Quality> {
        let writes_jpg = matches!(self.format, FormatChoice::Jpg | FormatChoice::Keep);
        if !writes_jpg && (self.progressive || self.subsampling.is_some()) {
            bail!(Usage("--progressive and --subsampling apply to jpg only; use --format jpg or keep".into()));
        }
        let png = self.quality.filter(|_| self.format == FormatChoice::Png);
        if png.is_some_and(|effort| effort > 9) {
            bail!(Usage("--quality must be 0 to 9 for png".into()));
        }
        let quality = self.quality.unwrap_or(95);
        let subsampling = self.subsampling.unwrap_or(Subsampling::Half);
        let jpeg = JpegSettings { quality, subsampling, progressive: self.progressive };
        Ok(Quality { jpeg, webp: quality, png: png.unwrap_or(3) })
    }
}

fn parse_size(text: &str) -> Result<PixelSize, String> {
    let (width, height) = text.split_once(['x', 'X']).unwrap_or((text, text));
    let side = |text: &str| text.parse().ok().filter(|side| (1..=65_500).contains(side));
    match (side(width), side(height)) {
        (Some(width), Some(height)) => Ok(PixelSize::new(width, height)),
        _ => Err("invalid size (write 256 or 640x480, up to 65500)".into()),
    }
}

fn parse_color(text: &str) -> Result<[u8; 3], String> {
    let invalid = || "invalid colour (write white, black, gray or #rrggbb)".to_owned();
    let rgb = match text {
        "white" => 0xff_ff_ff,
        "black" => 0,
        "gray" => 0x80_80_80,
        _ => {
            let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6).ok_or_else(invalid)?;
            // from_str_radix would accept a sign.
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(invalid());
            }
            u32::from_str_radix(digits, 16).map_err(|_| invalid())?
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
        assert_eq!(parse_size("256"), Ok(PixelSize::new(256, 256)));
        assert_eq!(parse_size("640x480"), Ok(PixelSize::new(640, 480)));
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
