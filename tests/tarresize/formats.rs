//! Formats and variants that no crate of the tests writes. The files in pictures/ were made by libavif,
//! OpenJPEG, libjxl, libtiff, Pillow and tifffile, most of them from one picture.

use std::path::Path;

use image::{DynamicImage, GrayImage, Luma, Rgb, RgbImage, RgbaImage};

use super::{decoded, distance, refused, resized};

/// The picture that the files show.
fn original() -> RgbImage {
    RgbImage::from_fn(40, 30, |x, y| Rgb([(x * 6) as u8, (y * 8) as u8, ((x + y) * 3) as u8]))
}

/// Its red channel.
fn gray() -> GrayImage {
    GrayImage::from_fn(40, 30, |x, _| Luma([(x * 6) as u8]))
}

/// A file of pictures/.
pub fn picture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tarresize/pictures").join(name)).unwrap()
}

/// Demands that each file shows the picture, up to a mean difference.
#[track_caller]
fn assert_shows(expected: impl Into<DynamicImage>, files: &[(&str, f64)]) {
    let expected = expected.into();
    for (name, worst) in files {
        let (_, out, _) = resized("-m no --format png", "jpg", &picture(name));
        let far = distance(&decoded(&out), &expected);
        assert!(far <= *worst, "{name} differs by {far}");
    }
}

#[test]
fn tiff_of_any_layout_and_compression_is_read() {
    let exact = ["big.tiff", "planar-tiles.tiff", "float.tiff", "differences.tiff", "lzw-low-bits.tiff", "cmyk.tiff"];
    assert_shows(original(), &exact.map(|name| (name, 0.0)));
    assert_shows(original(), &[("half.tiff", 0.1), ("ycbcr-jpeg.tiff", 2.0), ("lab.tiff", 2.0)]);
    assert_shows(gray(), &[("twelve-bits.tiff", 0.0), ("white-is-zero.tiff", 0.0)]);
    let colors = RgbImage::from_fn(40, 30, |x, _| Rgb([(x * 6) as u8, 255 - (x * 6) as u8, (x * 3) as u8]));
    assert_shows(colors, &[("palette.tiff", 0.0)]);
}

#[test]
fn fax_is_read_in_both_bit_orders() {
    let black_and_white = GrayImage::from_fn(40, 30, |x, _| Luma([if x * 6 > 128 { 255 } else { 0 }]));
    let files = ["fax-rows.tiff", "group3.tiff", "group3-2d.tiff", "group4-low-bits.tiff", "bits-low-first.tiff"];
    assert_shows(black_and_white, &files.map(|name| (name, 0.0)));
}

#[test]
fn tiff_keeps_its_alpha() {
    let (_, out, _) = resized("-m no --format png", "tiff", &picture("alpha.tiff"));
    let expected = RgbaImage::from_fn(40, 30, |x, y| {
        let Rgb([r, g, b]) = *original().get_pixel(x, y);
        image::Rgba([r, g, b, if x < 20 { 255 } else { 128 }])
    });
    assert_eq!(decoded(&out), expected.into());
}

#[test]
fn a_tiff_that_ends_early_is_kept_as_far_as_it_goes() {
    let whole = picture("half.tiff");
    let cut = &whole[..whole.len() * 6 / 10];
    refused("-s 16", cut, "truncated");
    let (_, out, _) = resized("-m no --format png --allow-truncated", "tiff", cut);
    let out = decoded(&out).to_rgb8();
    assert_eq!(out.get_pixel(20, 10), original().get_pixel(20, 10));
    assert_eq!(out.get_pixel(20, 29), &Rgb([0; 3]));
}

#[cfg(feature = "avif")]
mod avif {
    use super::*;

    #[test]
    fn avif_of_any_depth_and_subsampling_is_read() {
        let files = [("rgb.avif", 0.1), ("ten-bits.avif", 1.0), ("420.avif", 3.0)];
        assert_shows(original(), &files);
        assert_shows(gray(), &[("gray.avif", 2.0)]);
        let (_, out, _) = resized("-m no --format png", "avif", &picture("rgba.avif"));
        let out = decoded(&out).to_rgba8();
        assert_eq!([out.get_pixel(5, 5)[3], out.get_pixel(30, 5)[3]], [255, 128]);
    }

    #[test]
    fn an_avif_is_turned_as_its_boxes_say() {
        let (_, out, facts) = resized("-m no --format png", "avif", &picture("turned.avif"));
        assert_eq!((facts["width"].as_u64(), facts["original_height"].as_u64()), (Some(30), Some(40)));
        let expected = DynamicImage::from(original()).rotate90();
        let far = distance(&decoded(&out), &expected);
        assert!(far < 3.0, "{far}");
    }

    #[test]
    fn damaged_and_vast_avif_has_its_code() {
        let whole = picture("420.avif");
        refused("-s 16", &whole[..whole.len() - 20], "truncated");
        let size = whole.windows(4).position(|name| name == b"ispe").unwrap() + 8;
        let mut vast = whole;
        vast[size..size + 8].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
        refused("-s 16", &vast, "bomb");
        // A frame that is smaller than the declared size.
        vast[size..size + 8].copy_from_slice(&[0, 0, 1, 0, 0, 0, 1, 0]);
        refused("-s 16", &vast, "decode");
    }

    /// A box, or with a version and flags of 0 a full box.
    fn file_box(kind: &[u8; 4], body: &[&[u8]]) -> Vec<u8> {
        let body = body.concat();
        [&(body.len() as u32 + 8).to_be_bytes(), kind.as_slice(), &body].concat()
    }

    /// An AVIF of these locations, references and data, whose item 1 has this type and size.
    fn avif(kind: &[u8; 4], size: u32, locations: &[u8], references: &[u8], idat: &[u8]) -> Vec<u8> {
        let entry = |id: u8, kind: &[u8; 4]| file_box(b"infe", &[&[2, 0, 0, 0, 0, id, 0, 0], kind, &[0]]);
        let size = file_box(b"ispe", &[&[0; 4], &size.to_be_bytes(), &size.to_be_bytes()]);
        let meta = [
            file_box(b"pitm", &[&[0, 0, 0, 0, 0, 1]]),
            file_box(b"iinf", &[&[0, 0, 0, 0, 0, 2], &entry(1, kind), &entry(2, b"av01")]),
            file_box(b"iloc", &[locations]),
            file_box(b"iref", &[&[0; 4], references]),
            file_box(b"idat", &[idat]),
            file_box(
                b"iprp",
                &[&file_box(b"ipco", &[&size]), &file_box(b"ipma", &[&[0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1]])],
            ),
        ];
        let brand = file_box(b"ftyp", &[b"avif\0\0\0\0avifmif1"]);
        [brand, file_box(b"meta", &[&[0; 4], &meta.concat()])].concat()
    }

    #[test]
    fn an_avif_with_lists_out_of_all_proportion_is_refused() {
        // Extents without any byte: 20,000 items of 65,535 each.
        let locations = (0..20_000u16).flat_map(|id| [id.to_be_bytes(), [0; 2], [0xff; 2]].concat());
        let locations: Vec<u8> = [0, 0, 0, 0, 0, 0, 0x4e, 0x20].into_iter().chain(locations).collect();
        refused("-s 16", &avif(b"av01", 64, &locations, &[], &[]), "decode");
        // A grid of 20 tiles, all of them the same frame.
        let whole = picture("large.avif");
        let at = whole.windows(4).position(|name| name == b"mdat").unwrap() + 4;
        let idat = [&[0, 0, 4, 3, 0x16, 0xa8, 0x16, 0xa8], &whole[at..]].concat();
        let item = |id: u8, at: u32, len: usize| {
            [&[0, id, 0, 1, 0, 0, 0, 1], at.to_be_bytes().as_slice(), &(len as u32).to_be_bytes()].concat()
        };
        let locations = [&[1, 0, 0, 0, 0x44, 0, 0, 2], &*item(1, 0, 8), &*item(2, 8, idat.len() - 8)].concat();
        let references = file_box(b"dimg", &[&[0, 1, 0, 20], &[0, 2].repeat(20)]);
        refused("-s 16", &avif(b"grid", 5800, &locations, &references, &idat), "decode");
        // One frame after another.
        let frames = whole[at..].repeat(5);
        let locations = [&[1, 0, 0, 0, 0x44, 0, 0, 1], &*item(1, 0, frames.len())].concat();
        refused("-s 16", &avif(b"av01", 1600, &locations, &[], &frames), "bomb");
    }
}

#[cfg(feature = "jpeg2000")]
#[test]
fn jpeg_2000_is_read() {
    assert_shows(original(), &[("rgb.jp2", 0.0)]);
    assert_shows(gray(), &[("gray.j2k", 0.0)]);
    let (_, out, _) = resized("-m no --format png", "jp2", &picture("rgba.jp2"));
    assert_eq!(decoded(&out).to_rgba8().get_pixel(30, 5)[3], 128);
    let whole = picture("rgb.jp2");
    refused("-s 16", &whole[..whole.len() * 2 / 3], "truncated");
}

/// Writes numbers into the size segment of a JPEG 2000 file: width, height, two offsets, and width and height of a tile.
#[cfg(feature = "jpeg2000")]
fn with_sizes(file: &mut [u8], sizes: [u32; 6]) {
    let at = file.windows(4).position(|bytes| bytes == [0xff, 0x4f, 0xff, 0x51]).unwrap() + 8;
    let fields = file[at..].as_chunks_mut::<4>().0;
    fields.iter_mut().zip(sizes).for_each(|(field, size)| *field = size.to_be_bytes());
}

#[cfg(feature = "jpeg2000")]
#[test]
fn jpeg_2000_of_too_many_tiles_or_blocks_is_refused() {
    let side = 13_000;
    let mut tiles = picture("rgb.jp2");
    with_sizes(&mut tiles, [side, side, 0, 0, 1, 1]);
    refused("-s 16", &tiles, "decode");
    // Code blocks of 4 by 4 pixels: the same picture with blocks of 64 by 64 takes less.
    let mut blocks = picture("rgb.jp2");
    with_sizes(&mut blocks, [2000, 2000, 0, 0, 2000, 2000]);
    let at = blocks.windows(2).position(|bytes| bytes == [0xff, 0x52]).unwrap() + 10;
    blocks[at..at + 2].fill(0);
    refused("-s 16 --memory 500M", &blocks, "memory");
}

#[cfg(feature = "jpegxl")]
#[test]
fn jpeg_xl_is_read() {
    assert_shows(original(), &[("rgb.jxl", 0.0), ("lossy.jxl", 2.0), ("recompressed.jxl", 2.0)]);
    let (_, out, _) = resized("-m no --format png", "jxl", &picture("rgba.jxl"));
    assert_eq!(decoded(&out).to_rgba8().get_pixel(30, 5)[3], 128);
    let whole = picture("rgb.jxl");
    refused("-s 16", &whole[..whole.len() * 2 / 3], "truncated");
}
