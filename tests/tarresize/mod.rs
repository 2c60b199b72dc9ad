//! tarresize on images made by other codecs, and read back by other codecs.

mod colors;
mod fields;
mod formats;
mod independence;
mod memory;
mod sizes;
mod streams;

use std::io::Cursor;

use image::{DynamicImage, GrayImage, ImageFormat, Rgb, RgbImage};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use serde_json::Value;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::support::{Archive, members, words};

/// Red grows to the right, green to the bottom, blue is a wave: no two regions look alike.
pub fn photo(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let wave = (f64::from(x) / 9.0).sin() + (f64::from(y) / 7.0).cos();
        Rgb([(x * 255 / width) as u8, (y * 255 / height) as u8, (128.0 + wave * 50.0) as u8])
    })
}

pub fn encoded(image: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    image.into().write_to(&mut out, format).unwrap();
    out.into_inner()
}

pub fn png(image: impl Into<DynamicImage>) -> Vec<u8> {
    encoded(image, ImageFormat::Png)
}

pub fn jpeg(image: &RgbImage) -> Vec<u8> {
    jpeg_of(image.as_raw(), (image.width(), image.height()), ColorType::Rgb, SamplingFactor::F_2_2)
}

pub fn jpeg_of(pixels: &[u8], (width, height): (u32, u32), color: ColorType, sampling: SamplingFactor) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, 95);
    encoder.set_sampling_factor(sampling);
    encoder.encode(pixels, width as u16, height as u16, color).unwrap();
    out
}

/// A JPEG with one more segment behind its first marker.
pub fn with_segment(jpeg: &[u8], marker: u8, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u16 + 2).to_be_bytes();
    [&jpeg[..2], &[0xff, marker], &len, body, &jpeg[2..]].concat()
}

/// EXIF with a maker and an orientation.
pub fn exif(orientation: u8) -> Vec<u8> {
    let mut block = b"Exif\0\0II*\0\x08\0\0\0\x02\0".to_vec();
    block.extend(b"\x0f\x01\x02\0\x04\0\0\0Abc\0\x12\x01\x03\0\x01\0\0\0");
    block.extend([orientation, 0, 0, 0, 0, 0, 0, 0]);
    block
}

/// Any image as other decoders see it.
#[track_caller]
pub fn decoded(bytes: &[u8]) -> DynamicImage {
    if !bytes.starts_with(&[0xff, 0xd8]) {
        return image::load_from_memory(bytes).unwrap();
    }
    let gray = {
        let mut decoder = JpegDecoder::new(ZCursor::new(bytes));
        decoder.decode_headers().unwrap();
        decoder.input_colorspace().unwrap() == ColorSpace::Luma
    };
    let space = if gray { ColorSpace::Luma } else { ColorSpace::RGB };
    let options = DecoderOptions::new_safe().set_strict_mode(true).jpeg_set_out_colorspace(space);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    let pixels = decoder.decode().unwrap();
    let (width, height) = decoder.dimensions().map(|(w, h)| (w as u32, h as u32)).unwrap();
    if gray {
        GrayImage::from_raw(width, height, pixels).unwrap().into()
    } else {
        RgbImage::from_raw(width, height, pixels).unwrap().into()
    }
}

/// What one image becomes: its field, its bytes and the sample's JSON. Nothing may be said.
#[track_caller]
pub fn resized(flags: &str, field: &str, bytes: &[u8]) -> (String, Vec<u8>, Value) {
    let archive = Archive::new().file(&format!("a.{field}"), bytes).whole();
    let out = members(&words("tarresize", flags).stdin(archive).ok());
    assert_eq!(out.len(), 2, "an image and its json");
    let facts = serde_json::from_slice(&out[1].1).unwrap();
    assert_eq!(out[1].0, "a.json");
    (out[0].0.strip_prefix("a.").unwrap().to_owned(), out[0].1.clone(), facts)
}

/// Demands that one image fails under this code and leaves an empty archive.
#[track_caller]
pub fn refused(flags: &str, bytes: &[u8], code: &str) {
    let archive = Archive::new().file("a.jpg", bytes).whole();
    let done = words("tarresize", flags).stdin(archive).fails(3, &format!("tarresize: 0 samples; failed 1 (1 {code})"));
    assert!(members(&done.stdout()).is_empty());
}

/// The mean difference of two images in steps of 255, over all channels.
#[track_caller]
pub fn distance(a: &DynamicImage, b: &DynamicImage) -> f64 {
    let (a, b) = (a.to_rgb8(), b.to_rgb8());
    assert_eq!(a.dimensions(), b.dimensions());
    let sum: u64 = a.as_raw().iter().zip(b.as_raw()).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    sum as f64 / a.as_raw().len() as f64
}
