//! Every image gets the result that it has alone, whatever came before it in its worker: no table, buffer or
//! half-read state of one image reaches the next.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use image::{DynamicImage, ImageFormat, RgbaImage};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use serde_json::Value;

use super::formats::picture;
use super::{encoded, exif, jpeg, jpeg_of, photo, png, with_segment};
use crate::hostile::tarresize::endless_webp;
use crate::support::{Archive, archives::noise, dir, members, words};

/// What became of an image: its bytes, or the code of its failure.
type Fate = Result<Vec<u8>, String>;

/// Runs tarresize on these images and gives the fate of each, by its number.
#[track_caller]
fn fates(flags: &str, images: &[(usize, &[u8])]) -> BTreeMap<usize, Fate> {
    let folder = dir();
    let report = folder.path().join("report.jsonl");
    let archive =
        images.iter().fold(Archive::new(), |archive, (i, bytes)| archive.file(&format!("{i:06}.jpg"), bytes)).whole();
    let flags = format!("{flags} --report {}", report.display());
    let done = words("tarresize", &flags).stdin(archive).done();
    assert!([0, 3].contains(&done.status_code()), "{}", done.stderr_text());
    let mut fates: BTreeMap<usize, Fate> = BTreeMap::new();
    for (name, bytes) in members(&done.stdout()).into_iter().filter(|(name, _)| !name.ends_with(".json")) {
        fates.insert(name[..6].parse().unwrap(), Ok(bytes));
    }
    for line in std::fs::read_to_string(report).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        if row["status"] == "failed" {
            let number = row["key"].as_str().unwrap().parse().unwrap();
            fates.insert(number, Err(row["code"].as_str().unwrap().to_owned()));
        }
    }
    assert_eq!(fates.len(), images.len());
    fates
}

/// The result of each image in its own process.
fn alone(flags: &str, images: &[Vec<u8>]) -> BTreeMap<usize, Fate> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = BTreeMap::new();
        while let Some(i) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < images.len()) {
            found.append(&mut fates(&format!("-p 1 {flags}"), &[(i, &images[i])]));
        }
        found
    };
    std::thread::scope(|scope| {
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

#[track_caller]
fn assert_same(what: &str, alone: &BTreeMap<usize, Fate>, together: &BTreeMap<usize, Fate>) {
    let differ: Vec<usize> = alone.keys().copied().filter(|i| alone[i] != together[i]).collect();
    let show = |fate: &Fate| fate.as_ref().map_or_else(Clone::clone, |bytes| format!("{} bytes", bytes.len()));
    let first = differ.first().map(|i| format!("{i}: alone {}, here {}", show(&alone[i]), show(&together[i])));
    assert!(differ.is_empty(), "{what}: {} of {} differ, first {first:?}", differ.len(), alone.len());
}

/// Runs the images together in several orders and on several workers, and compares each with its run alone.
fn assert_independent(flags: &str, images: &[Vec<u8>]) {
    let alone = alone(flags, images);
    let forward: Vec<(usize, &[u8])> = images.iter().enumerate().map(|(i, bytes)| (i, bytes.as_slice())).collect();
    let backward: Vec<(usize, &[u8])> = forward.iter().rev().copied().collect();
    for parallel in [1, 2, 4] {
        for (order, images) in [("forward", &forward), ("backward", &backward)] {
            let together = fates(&format!("-p {parallel} {flags}"), images);
            assert_same(&format!("-p {parallel} {flags}, {order}"), &alone, &together);
        }
    }
}

/// The JPEG without its segments of this kind.
fn without_segments(jpeg: &[u8], marker: u8) -> Vec<u8> {
    let (mut out, mut at) = (jpeg[..2].to_vec(), 2);
    while jpeg[at + 1] != 0xda {
        let end = at + 2 + usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
        if jpeg[at + 1] != marker {
            out.extend(&jpeg[at..end]);
        }
        at = end;
    }
    out.extend(&jpeg[at..]);
    out
}

fn jpeg_with(set: impl Fn(&mut Encoder<&mut Vec<u8>>)) -> Vec<u8> {
    let (image, mut out) = (photo(50, 40), Vec::new());
    let mut encoder = Encoder::new(&mut out, 80);
    set(&mut encoder);
    encoder.encode(image.as_raw(), 50, 40, ColorType::Rgb).unwrap();
    out
}

/// Small images of every format and of every way through the tool.
fn seeds() -> Vec<Vec<u8>> {
    let plain = jpeg(&photo(50, 40));
    let optimized = jpeg_with(|encoder| encoder.set_optimized_huffman_tables(true));
    let clear = RgbaImage::from_fn(33, 21, |x, y| image::Rgba([x as u8 * 7, y as u8 * 9, 80, (x * y) as u8]));
    let inks: Vec<u8> = (0..40 * 30 * 4).map(|i| (i * 7 % 251) as u8).collect();
    let profile = [b"ICC_PROFILE\0\x01\x01".as_slice(), &noise(5, 300)].concat();
    let mut seeds = vec![
        plain.clone(),
        optimized.clone(),
        jpeg_with(|encoder| encoder.set_progressive(true)),
        jpeg_of(photo(49, 37).as_raw(), (49, 37), ColorType::Rgb, SamplingFactor::F_1_1),
        jpeg_of(&inks[..40 * 30], (40, 30), ColorType::Luma, SamplingFactor::F_1_1),
        jpeg_of(&inks, (40, 30), ColorType::CmykAsYcck, SamplingFactor::F_1_1),
        without_segments(&plain, 0xc4),
        without_segments(&optimized, 0xc4),
        without_segments(&plain, 0xdb),
        with_segment(&plain, 0xe1, &exif(6)),
        with_segment(&plain, 0xe2, &profile),
        [&[0xff, 0xd8, 0xff, 0xe1, 0, 4, 1, 2, 9, 9, 0xff], &plain[2..]].concat(),
        png(photo(50, 40)),
        png(DynamicImage::from(photo(50, 40)).to_rgb16()),
        png(clear.clone()),
        encoded(photo(50, 40), ImageFormat::WebP),
        encoded(clear, ImageFormat::WebP),
        endless_webp(3),
        encoded(photo(50, 40), ImageFormat::Gif),
        encoded(photo(50, 40), ImageFormat::Bmp),
        encoded(photo(50, 40), ImageFormat::Tiff),
        encoded(photo(50, 40), ImageFormat::Pnm),
    ];
    // A build without one of the decoders refuses them, which must not depend on other images either.
    seeds.extend(
        ["420.avif", "rgba.avif", "ten-bits.avif", "rgb.jp2", "gray.j2k", "rgba.jxl", "lossy.jxl"].map(picture),
    );
    seeds
}

/// Every seed whole, and `count` damaged ones: bytes replaced, mostly in the head, or the end cut off.
fn mutations(count: usize) -> Vec<Vec<u8>> {
    let seeds = seeds();
    let damaged = (0..count).map(|round| {
        let mut bytes = seeds[round % seeds.len()].clone();
        let dice = noise(round as u64, 24);
        let number = |at: usize| usize::from(u16::from_le_bytes([dice[at], dice[at + 1]]));
        let reach = if dice[0].is_multiple_of(4) { bytes.len() } else { bytes.len().min(700) };
        for change in 0..=usize::from(dice[1] % 4) {
            let at = number(2 + change * 3) % reach;
            bytes[at] = dice[4 + change * 3];
        }
        if dice[1] >= 230 {
            bytes.truncate(number(20) % bytes.len());
        }
        bytes
    });
    // Good images are placed between damaged ones, not only before them.
    let every = (count / seeds.len()).max(1);
    let whole = seeds.iter().cloned().map(Some);
    let mut whole = whole.chain(std::iter::repeat(None));
    let mixed = damaged.enumerate().flat_map(|(i, bytes)| {
        let seed = if i.is_multiple_of(every) { whole.next().flatten() } else { None };
        [Some(bytes), seed].into_iter().flatten()
    });
    mixed.collect()
}

#[test]
fn one_damaged_jpeg_costs_none_of_the_hundred_after_it() {
    let good = jpeg(&photo(200, 160));
    let mut bad = good.clone();
    let at = bad.windows(2).position(|pair| pair == [0xff, 0xc4]).unwrap();
    bad[at + 5] = 255;
    let images: Vec<(usize, &[u8])> =
        std::iter::once((0, bad.as_slice())).chain((1..=100).map(|i| (i, good.as_slice()))).collect();
    let expected = fates("-p 1 -s 64", &[(1, good.as_slice())])[&1].clone();
    assert!(expected.is_ok());
    for parallel in [1, 2, 4] {
        let found = fates(&format!("-p {parallel} -s 64"), &images);
        assert_eq!(found[&0], Err("decode".into()));
        let right = (1..=100).filter(|i| found[i] == expected).count();
        assert_eq!(right, 100, "-p {parallel}: good images that came out as they do alone");
    }
}

// The decoder in Rust keeps nothing between images.
#[test]
fn tables_of_one_jpeg_are_not_used_for_another_that_has_none() {
    let plain = jpeg(&photo(50, 40));
    let optimized = jpeg_with(|encoder| encoder.set_optimized_huffman_tables(true));
    let images = [
        jpeg(&photo(64, 64)),
        optimized,
        without_segments(&plain, 0xdb),
        without_segments(&plain, 0xc4),
        jpeg_of(photo(33, 33).as_raw(), (33, 33), ColorType::Rgb, SamplingFactor::F_1_1),
    ];
    assert_independent("-s 16", &images);
}

#[test]
fn any_sequence_of_damaged_images_gives_each_the_result_it_has_alone() {
    let count: usize = std::env::var("TARPIPE_MUTATIONS").map_or(150, |count| count.parse().unwrap());
    let images = mutations(count);
    assert_independent("-s 16", &images);
    // The flags that reach other code, each on a part: every image in a process of its own is what takes time.
    for (at, flags) in [
        "-s 24 -m center_crop --allow-truncated --format png --exif",
        "-s 60x44 -m border --up cubic --format webp --icc keep",
        "-m no --skip-reencode --format keep",
        "-s 30 --down lanczos --progressive --subsampling 444 --color rgb",
    ]
    .into_iter()
    .enumerate()
    {
        let part: Vec<Vec<u8>> = images.iter().skip(at).step_by(8).cloned().collect();
        assert_independent(flags, &part);
    }
}
