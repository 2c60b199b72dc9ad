//! tarshow through its binary: text, tables, files, pictures, and a page in a real browser.

mod browser;
mod extract;
mod media;
mod page;
mod pictures;
mod tables;
mod text;

use std::io::Cursor;

use image::{DynamicImage, ImageFormat, Rgb, RgbImage};

use crate::support::Archive;

/// Red grows to the right, green to the bottom.
fn photo(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| Rgb([(x * 255 / width) as u8, (y * 255 / height) as u8, 90]))
}

fn png(image: &RgbImage) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    DynamicImage::from(image.clone()).write_to(&mut out, ImageFormat::Png).unwrap();
    out.into_inner()
}

fn jpeg(image: &RgbImage) -> Vec<u8> {
    let mut out = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut out, 90);
    let (width, height) = (image.width() as u16, image.height() as u16);
    encoder.encode(image.as_raw(), width, height, jpeg_encoder::ColorType::Rgb).unwrap();
    out
}

/// Samples with a picture, some JSON, and for most of them a caption.
fn gallery(count: usize) -> Archive {
    (0..count).fold(Archive::new(), |archive, i| {
        let key = format!("train/{i:04}");
        let (width, height) = (60 + i as u32 % 50 * 4, 60 + i as u32 % 30 * 3);
        let facts = format!("{{\"width\": {width}, \"url\": \"http://h/{i}\", \"tags\": [\"a\", {i}]}}");
        let archive = archive
            .file(&format!("{key}.jpg"), &jpeg(&photo(width, height)))
            .file(&format!("{key}.json"), facts.as_bytes());
        if i % 5 == 4 { archive } else { archive.file(&format!("{key}.txt"), format!("caption number {i}").as_bytes()) }
    })
}
