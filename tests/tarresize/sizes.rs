//! Sizes, modes, filters and orientation.

use image::{DynamicImage, Rgb};
use jpeg_encoder::{ColorType, SamplingFactor};
use serde_json::json;

use super::{decoded, distance, exif, jpeg, jpeg_of, photo, png, refused, resized, with_segment};
use crate::support::words;

fn size(flags: &str, bytes: &[u8]) -> (u32, u32) {
    let (_, out, facts) = resized(flags, "jpg", bytes);
    let image = decoded(&out);
    assert_eq!(
        (facts["width"].as_u64(), facts["height"].as_u64()),
        (Some(image.width().into()), Some(image.height().into()))
    );
    (image.width(), image.height())
}

#[test]
fn every_mode_makes_the_size_of_img2dataset() {
    for bytes in [jpeg(&photo(500, 300)), png(photo(500, 300))] {
        assert_eq!(size("-s 256 -m keep_ratio", &bytes), (427, 256));
        assert_eq!(size("-s 256 -m keep_ratio_largest", &bytes), (256, 154));
        assert_eq!(size("-s 256 -m center_crop", &bytes), (256, 256));
        assert_eq!(size("-s 256 -m border", &bytes), (256, 256));
        assert_eq!(size("-m no", &bytes), (500, 300));
        assert_eq!(size("-s 600 -m keep_ratio", &bytes), (1000, 600));
        assert_eq!(size("-s 600 -m keep_ratio --only-if-bigger", &bytes), (500, 300));
        assert_eq!(size("-s 400 -m center_crop --only-if-bigger", &bytes), (500, 300));
        assert_eq!(size("-s 600 -m border --only-if-bigger", &bytes), (500, 300));
        assert_eq!(size("-s 100x50 -m center_crop", &bytes), (100, 50));
        assert_eq!(size("-s 1 -m keep_ratio_largest", &bytes), (1, 1));
    }
}

#[test]
fn the_json_tells_sizes_and_format() {
    let (_, _, facts) = resized("-s 100", "jpg", &jpeg(&photo(300, 200)));
    let expected = json!({"width": 150, "height": 100, "original_width": 300, "original_height": 200, "format": "jpg"});
    assert_eq!(facts, expected);
}

#[test]
fn pixels_are_those_of_another_resizer() {
    let original = photo(400, 300);
    for (filter, theirs) in [
        ("nearest", image::imageops::Nearest),
        ("linear", image::imageops::Triangle),
        ("cubic", image::imageops::CatmullRom),
        ("area", image::imageops::Triangle),
        ("lanczos", image::imageops::Lanczos3),
    ] {
        for side in [90, 150, 450] {
            let expected: DynamicImage = image::imageops::resize(&original, side * 4 / 3, side, theirs).into();
            for (bytes, worst) in [(png(original.clone()), 1.5), (jpeg(&original), 2.5)] {
                let (_, out, _) =
                    resized(&format!("-s {side} --down {filter} --up {filter} --subsampling 444"), "jpg", &bytes);
                let far = distance(&decoded(&out), &expected);
                assert!(far < worst, "{filter} to {side}: {far}");
            }
        }
    }
}

#[test]
fn every_subsampling_gives_the_same_picture() {
    let original = photo(333, 251);
    let expected = decoded(&resized("-s 101 --format png", "png", &png(original.clone())).1);
    let all = [
        SamplingFactor::F_1_1,
        SamplingFactor::F_2_1,
        SamplingFactor::F_1_2,
        SamplingFactor::F_2_2,
        SamplingFactor::F_4_1,
    ];
    for sampling in all {
        let bytes = jpeg_of(original.as_raw(), original.dimensions(), ColorType::Rgb, sampling);
        for flags in [
            "-s 101",
            "-s 101 --subsampling 444",
            "-s 101 --progressive",
            "-s 101 --down lanczos",
            "-s 101 --format png",
        ] {
            let (_, out, _) = resized(flags, "jpg", &bytes);
            let far = distance(&decoded(&out), &expected);
            assert!(far < 3.5, "{sampling:?} {flags}: {far}");
        }
    }
}

#[test]
fn a_large_jpeg_that_is_scaled_while_decoding_gives_the_same_picture() {
    let original = photo(1601, 1203);
    let expected = decoded(&resized("-s 97 --format png", "png", &png(original.clone())).1);
    let far = distance(&decoded(&resized("-s 97 --subsampling 444", "jpg", &jpeg(&original)).1), &expected);
    assert!(far < 2.5, "{far}");
}

#[test]
fn a_crop_is_the_middle_and_a_border_is_white() {
    let original = photo(400, 200);
    for bytes in [jpeg(&original), png(original.clone())] {
        let crop = decoded(&resized("-s 200 -m center_crop", "jpg", &bytes).1);
        let middle = image::imageops::crop_imm(&original, 100, 0, 200, 200).to_image().into();
        assert!(distance(&crop, &middle) < 2.5);
        for side in [100, 98] {
            let border = decoded(&resized(&format!("-s {side} -m border"), "jpg", &bytes).1).to_rgb8();
            let top = side / 4 - 1;
            assert_eq!(border.get_pixel(side / 2, 0), &Rgb([255, 255, 255]));
            assert!(border.get_pixel(3, top - 2)[0] > 245 && border.get_pixel(3, side - 1)[0] > 245);
            assert!(border.get_pixel(3, top + 4)[0] < 30, "{side}: {:?}", border.get_pixel(3, top + 4));
        }
    }
}

#[test]
fn orientation_is_applied_kept_or_ignored() {
    let upright = photo(120, 80);
    let stored = image::imageops::rotate270(&upright);
    let bytes = with_segment(&jpeg(&stored), 0xe1, &exif(6));
    for flags in
        ["-s 40 --subsampling 444", "-s 40 -m center_crop --subsampling 444", "-s 40 -m border --subsampling 444"]
    {
        let applied = resized(flags, "jpg", &bytes);
        let plain = resized(flags, "jpg", &jpeg(&upright));
        assert!(distance(&decoded(&applied.1), &decoded(&plain.1)) < 2.5, "{flags}");
        assert_eq!(
            (applied.2["original_width"].as_u64(), applied.2["width"].as_u64()),
            (Some(120), plain.2["width"].as_u64())
        );
    }
    let orientation = |flags: &str| resized(&format!("{flags} --exif -m no"), "jpg", &bytes);
    let kept = resized("-m no --exif", "jpg", &orientation("--orient keep").1).2;
    assert_eq!((kept["width"].as_u64(), kept["exif"]["Orientation"].as_u64()), (Some(120), Some(6)));
    let ignored = resized("-m no --exif", "jpg", &orientation("--orient ignore").1).2;
    assert_eq!((ignored["width"].as_u64(), ignored["exif"]["Orientation"].as_u64()), (Some(80), Some(1)));
    let applied = resized("-m no --exif", "jpg", &orientation("--orient apply").1).2;
    assert_eq!((applied["width"].as_u64(), applied["exif"]["Orientation"].as_u64()), (Some(120), Some(1)));
    let stripped = resized("-m no --exif", "jpg", &orientation("--strip").1).2;
    assert_eq!((stripped["width"].as_u64(), &stripped["exif"]), (Some(120), &json!({})));
}

#[test]
fn filters_look_at_the_original_size() {
    let bytes = jpeg(&photo(300, 100));
    refused("-s 50 --min-side 101", &bytes, "too_small");
    refused("-s 50 --max-area 29999", &bytes, "too_large_area");
    refused("-s 50 --max-aspect 2.9", &bytes, "aspect");
    resized("-s 50 --min-side 100 --max-area 30000 --max-aspect 3", "jpg", &bytes);
}

#[test]
fn flags_that_contradict_each_other_are_usage_errors() {
    for (flags, said) in [
        ("", "missing size; give -s N or -s WxH, or keep sizes with -m no"),
        ("-m no -s 5", "-m no keeps the size; remove -s"),
        ("-s 5 --format png --quality 10", "--quality must be 0 to 9 for png"),
        (
            "-s 5 --format png --progressive",
            "--progressive and --subsampling apply to jpg only; use --format jpg or keep",
        ),
        ("-s 5 --strip --orient keep", "--strip conflicts with --orient keep and --icc keep"),
        ("-s 5 --report x.txt", "x.txt: the name of a report must end in .jsonl, .csv or .parquet"),
    ] {
        words("tarresize", flags).fails(2, &format!("tarresize: {said}"));
    }
}
