//! Formats, depths, alpha, inks, profiles, blurring.

use image::{DynamicImage, GrayAlphaImage, GrayImage, ImageBuffer, ImageFormat, Luma, Rgb, RgbaImage};
use jpeg_encoder::{ColorType, SamplingFactor};

use super::{decoded, distance, encoded, jpeg, jpeg_of, photo, png, resized, with_segment};
use crate::support::{Archive, members, words};

#[test]
fn every_format_is_read_by_its_content() {
    let original = photo(90, 60);
    let expected = DynamicImage::from(original.clone());
    for format in [ImageFormat::Png, ImageFormat::WebP, ImageFormat::Bmp, ImageFormat::Tiff, ImageFormat::Pnm] {
        let (_, out, _) = resized("-m no --format png", "jpg", &encoded(original.clone(), format));
        assert_eq!(decoded(&out), expected, "{format:?}");
    }
    let gif = encoded(original, ImageFormat::Gif);
    let expected = image::load_from_memory(&gif).unwrap();
    assert_eq!(distance(&decoded(&resized("-m no --format png", "gif", &gif).1), &expected), 0.0);
}

#[test]
fn every_format_is_written() {
    let original = photo(90, 60);
    for (format, worst) in [("jpg", 2.0), ("png", 0.0), ("webp", 2.5)] {
        let (field, out, facts) =
            resized(&format!("-m no --format {format}"), "bmp", &encoded(original.clone(), ImageFormat::Bmp));
        assert_eq!((field.as_str(), facts["format"].as_str()), (format, Some(format)));
        let far = distance(&decoded(&out), &original.clone().into());
        assert!(far <= worst, "{format}: {far}");
    }
    assert_eq!(resized("-m no --format keep", "gif", &encoded(original.clone(), ImageFormat::Gif)).0, "png");
    assert_eq!(resized("-m no --format keep", "webp", &encoded(original.clone(), ImageFormat::WebP)).0, "webp");
    let lengths = [10, 50, 95].map(|q| resized(&format!("-m no --quality {q}"), "png", &png(original.clone())).1.len());
    assert!(lengths.is_sorted() && lengths[0] < lengths[2], "{lengths:?}");
}

#[test]
fn sixteen_bits_scale() {
    let wide = ImageBuffer::from_fn(256, 4, |x, _| Luma([x as u16 * 257]));
    let (_, out, _) = resized("-m no --format png", "png", &png(DynamicImage::ImageLuma16(wide)));
    let expected = GrayImage::from_fn(256, 4, |x, _| Luma([x as u8]));
    assert_eq!(decoded(&out), expected.into());
}

#[test]
fn alpha_is_laid_over_the_background() {
    let clear = RgbaImage::from_fn(32, 32, |x, _| image::Rgba([200, 0, 0, if x < 16 { 0 } else { 255 }]));
    let pixel =
        |flags: &str, x: u32| decoded(&resized(flags, "png", &png(clear.clone())).1).to_rgba8().get_pixel(x, 5).0;
    let near = |a: [u8; 4], b: [u8; 4]| a.iter().zip(b).all(|(a, b)| a.abs_diff(b) < 6);
    assert!(near(pixel("-m no", 2), [255, 255, 255, 255]));
    assert!(near(pixel("-m no --background black", 2), [0, 0, 0, 255]));
    assert!(near(pixel("-m no --background #00ff00 --format png", 2), [0, 255, 0, 255]));
    assert_eq!(pixel("-m no --format png", 2)[3], 0);
    // What cannot be seen must not bleed into what can.
    assert!(near(pixel("-s 11 --format png", 10), [200, 0, 0, 255]));
    assert!(near(pixel("-s 11 --format png --down lanczos", 9), [200, 0, 0, 255]));
}

#[test]
fn gray_stays_gray_unless_asked() {
    let gray = GrayImage::from_fn(64, 48, |x, y| Luma([(x * 3 + y) as u8]));
    let as_jpeg = jpeg_of(gray.as_raw(), (64, 48), ColorType::Luma, SamplingFactor::F_1_1);
    for bytes in [as_jpeg, png(gray.clone())] {
        for format in ["jpg", "png"] {
            let out = decoded(&resized(&format!("-s 24 --format {format}"), "png", &bytes).1);
            assert!(out.as_luma8().is_some(), "{format}");
            let out = decoded(&resized(&format!("-s 24 --format {format} --color rgb"), "png", &bytes).1);
            assert!(out.as_rgb8().is_some(), "{format}");
        }
    }
    let faint = GrayAlphaImage::from_pixel(8, 8, image::LumaA([0, 128]));
    assert_eq!(decoded(&resized("-m no", "png", &png(faint)).1).to_luma8().get_pixel(4, 4).0, [127]);
}

#[test]
fn cmyk_becomes_rgb_inverted_or_not() {
    let original = photo(64, 48);
    let inks: Vec<u8> = original.pixels().flat_map(|Rgb([r, g, b])| [255 - r, 255 - g, 255 - b, 0]).collect();
    let light: Vec<u8> = inks.iter().map(|ink| 255 - ink).collect();
    // The encoder inverts and writes Adobe's marker for CMYK, as Photoshop does.
    for (pixels, color) in [(&inks, ColorType::Cmyk), (&inks, ColorType::CmykAsYcck)] {
        let bytes = jpeg_of(pixels, (64, 48), color, SamplingFactor::F_1_1);
        let far = distance(&decoded(&resized("-m no", "jpg", &bytes).1), &original.clone().into());
        assert!(far < 3.5, "{color:?}: {far}");
    }
    let plain = jpeg_of(&light, (64, 48), ColorType::Cmyk, SamplingFactor::F_1_1);
    let adobe = plain.windows(2).position(|pair| pair == [0xff, 0xee]).unwrap();
    let without = [&plain[..adobe], &plain[adobe + 16..]].concat();
    let far = distance(&decoded(&resized("-m no", "jpg", &without).1), &original.into());
    assert!(far < 3.5, "without Adobe's marker: {far}");
}

/// A profile of matrix and curve: Display P3's primaries are wider than those of sRGB.
fn wide_profile() -> Vec<u8> {
    let fixed = |v: f64| ((v * 65536.0).round() as i32).to_be_bytes();
    let xyz = |x, y, z| [b"XYZ \0\0\0\0".as_slice(), &fixed(x), &fixed(y), &fixed(z)].concat();
    let curve = [b"curv\0\0\0\0\0\0\0\x01\x02\x33".as_slice(), &[0, 0]].concat();
    let tags: [(&[u8; 4], Vec<u8>); 7] = [
        (b"rXYZ", xyz(0.515_12, 0.241_2, -0.001_05)),
        (b"gXYZ", xyz(0.291_98, 0.692_25, 0.041_89)),
        (b"bXYZ", xyz(0.157_1, 0.066_57, 0.784_07)),
        (b"wtpt", xyz(0.964_2, 1.0, 0.824_9)),
        (b"rTRC", curve.clone()),
        (b"gTRC", curve.clone()),
        (b"bTRC", curve),
    ];
    let mut table = (tags.len() as u32).to_be_bytes().to_vec();
    let mut data = Vec::new();
    for (name, body) in &tags {
        let offset = 128 + 4 + tags.len() * 12 + data.len();
        table.extend([name.as_slice(), &(offset as u32).to_be_bytes(), &(body.len() as u32).to_be_bytes()].concat());
        data.extend(body);
    }
    let mut head = vec![0; 128];
    head[..4].copy_from_slice(&((128 + table.len() + data.len()) as u32).to_be_bytes());
    head[8..12].copy_from_slice(&[2, 0x40, 0, 0]);
    head[12..24].copy_from_slice(b"mntrRGB XYZ ");
    head[36..40].copy_from_slice(b"acsp");
    head[68..80].copy_from_slice(&[fixed(0.964_2), fixed(1.0), fixed(0.824_9)].concat());
    [head, table, data].concat()
}

#[test]
fn profiles_become_srgb_or_are_kept() {
    let flat = image::RgbImage::from_pixel(32, 32, Rgb([60, 200, 60]));
    let segment = [b"ICC_PROFILE\0\x01\x01".as_slice(), &wide_profile()].concat();
    let bytes = with_segment(&jpeg(&flat), 0xe2, &segment);
    let pixel = |bytes: &[u8]| decoded(bytes).to_rgb8().get_pixel(9, 9).0;
    let converted = resized("-s 16", "jpg", &bytes).1;
    assert!(pixel(&converted)[0] < 40 && pixel(&converted)[1] > 200, "{:?}", pixel(&converted));
    for flags in ["-s 16 --icc keep", "-s 16 --icc ignore"] {
        let out = resized(flags, "jpg", &bytes).1;
        assert!(pixel(&out)[0].abs_diff(60) < 5, "{flags}: {:?}", pixel(&out));
        let has = out.windows(12).any(|window| window == b"ICC_PROFILE\0");
        assert_eq!(has, flags.ends_with("keep"), "{flags}");
    }
    let kept = resized("-s 16 --icc keep --format webp", "jpg", &bytes).1;
    assert!(pixel(&resized("-m no", "webp", &kept).1)[0] < 40, "a WebP carries its profile on");
}

#[test]
fn boxes_are_blurred_and_force_encoding() {
    let stripes = image::RgbImage::from_fn(64, 64, |x, _| if x % 4 < 2 { Rgb([0; 3]) } else { Rgb([255; 3]) });
    let archive =
        |json: &str| Archive::new().file("a.png", &png(stripes.clone())).file("a.json", json.as_bytes()).whole();
    let flags = "-m no --format png --skip-reencode --blur faces";
    let out = members(&words("tarresize", flags).stdin(archive(r#"{"faces": [[0, 0, 0.5, 1]]}"#)).ok());
    let image = decoded(&out[0].1).to_luma8();
    let contrast = |from: u32| {
        (from..from + 8).map(|x| image.get_pixel(x, 30).0[0]).fold((255, 0), |(a, b), v| (v.min(a), v.max(b)))
    };
    let (dark, bright) = contrast(10);
    assert!(bright - dark < 80, "{dark} to {bright}");
    assert_eq!(contrast(40), (0, 255));
    let none = members(&words("tarresize", flags).stdin(archive(r#"{"faces": []}"#)).ok());
    assert_eq!(none[0].1, png(stripes.clone()));
    for wrong in [r#"{"face": [[0, 0, 1, 1]]}"#, r#"{"faces": [[0, 0, 640, 480]]}"#, "[]", "nonsense"] {
        let done = words("tarresize", flags).stdin(archive(wrong));
        done.fails(3, "tarresize: 0 samples; failed 1 (1 boxes)");
    }
}

#[test]
fn animations_give_their_first_frame_or_are_rejected() {
    let mut gif = Vec::new();
    let frame = |v: u8| image::Frame::new(RgbaImage::from_pixel(20, 10, image::Rgba([v, v, v, 255])));
    image::codecs::gif::GifEncoder::new(&mut gif).encode_frames([frame(10), frame(200)]).unwrap();
    let (_, out, _) = resized("-m no --format png", "gif", &gif);
    assert!(decoded(&out).to_luma8().get_pixel(5, 5).0[0] < 20);
    super::refused("-m no --animated reject", &gif, "animated");
}
