//! Decoded pictures share one budget of memory, whatever the number of threads.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use image::{DynamicImage, ImageFormat, RgbImage, RgbaImage};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use super::formats::picture;
use super::{encoded, exif, jpeg_of, photo, png, with_segment};
use crate::hostile::tarresize::chunk;
use crate::support::{Archive, dir, members, names, peak_memory, words};

/// A large picture that compresses to next to nothing.
fn blank(width: u32, height: u32) -> Vec<u8> {
    png(RgbImage::new(width, height))
}

fn many(count: usize, bytes: &[u8]) -> Archive {
    (0..count).fold(Archive::new(), |archive, i| archive.file(&format!("{i}.png"), bytes))
}

/// What tarresize thinks that an image needs, which it says when that is too much.
fn needed(flags: &str, bytes: &[u8]) -> u64 {
    let archive = Archive::new().file("a.jpg", bytes).whole();
    let done = words("tarresize", &format!("-v --memory 1 {flags}")).stdin(archive).done().status(3);
    let said = done.stderr_text();
    let (_, rest) = said.split_once("pixels need ").unwrap_or_else(|| panic!("{said}"));
    let mut words = rest.split_whitespace();
    let (number, unit): (f64, &str) = (words.next().unwrap().parse().unwrap(), words.next().unwrap());
    (number * if unit == "GB" { 1e9 } else { 1e6 }) as u64
}

#[test]
fn eight_threads_take_no_more_memory_than_the_limit() {
    let folder = dir();
    // Buffers beyond 32 MB go back to the system at once; allocators keep smaller ones for each thread.
    let large = blank(4500, 4000);
    std::fs::write(folder.path().join("in.tar"), many(8, &large).whole()).unwrap();
    std::fs::write(folder.path().join("small.tar"), many(8, &blank(3, 3)).whole()).unwrap();
    let flags = "-s 16 --down nearest -p 8";
    let need = needed("-s 16 --down nearest", &large);
    assert!((54_000_000..200_000_000).contains(&need), "{need}");
    let base = peak_memory(folder.path(), "tarresize", &format!("{flags} small.tar"));
    let limited = peak_memory(folder.path(), "tarresize", &format!("{flags} --memory {} in.tar", need + 1_000_000));
    assert!(limited < base + need + (16 << 20), "{limited} bytes, and {base} without large pictures");
    let done = words("tarresize", &format!("{flags} --memory 150M")).stdin(many(8, &large).whole()).ok();
    assert_eq!(names(&done).iter().filter(|name| name.ends_with(".jpg")).count(), 8);
}

#[test]
fn a_picture_that_needs_more_than_the_limit_fails_for_any_number_of_threads() {
    let archive = many(3, &blank(2000, 1000)).file("small.png", &png(photo(50, 40))).file("z.png", &blank(1500, 2000));
    let archive = archive.whole();
    let mut outputs = Vec::new();
    for parallel in [1, 2, 8] {
        let done = words("tarresize", &format!("-v -s 16 --memory 5M -p {parallel}")).stdin(archive.clone()).done();
        let done = done.status(0);
        let said = done.stderr_text();
        let why = "memory: 2000x1000 pixels need 16.0 MB of memory, but --memory is 5.2 MB; raise --memory, or skip large \
                   images with --max-area";
        assert!(said.contains(&format!("tarresize: stdin: 0.png: {why}\n")), "{said}");
        assert!(said.ends_with("tarresize: 1 sample; failed 4 (4 memory)\n"), "{said}");
        outputs.push(done.stdout());
    }
    assert!(outputs.iter().all(|output| *output == outputs[0]));
}

#[test]
fn little_memory_changes_no_byte_and_stops_nobody() {
    // Several images in a sample, of which any two are too much at once.
    let sizes = [(400, 300), (900, 700), (30, 20), (1000, 600), (640, 480)];
    let archive = (0..20).fold(Archive::new(), |archive, i| {
        let image = |n: usize| png(photo(sizes[(i + n) % 5].0, sizes[(i + n) % 5].1));
        let names = ["a", "b", "c"].map(|part| format!("{i:02}.{part}.png"));
        (0..i % 4).fold(archive.file(&format!("{i:02}.txt"), b"x"), |archive, n| archive.file(&names[n], &image(n)))
    });
    let archive = archive.whole();
    let flags = "-s 32 --format png --on-error keep";
    let whole = words("tarresize", &format!("{flags} -p 1")).stdin(archive.clone()).done().status(0).stdout();
    for (parallel, memory) in [(2, "6M"), (4, "6M"), (8, "7M"), (4, "40M")] {
        let flags = format!("{flags} -p {parallel} --memory {memory}");
        let done = words("tarresize", &flags).stdin(archive.clone()).done().status(0);
        let said = done.stderr_text();
        assert!(!said.contains("memory"), "{said}");
        assert!(members(&done.stdout()) == members(&whole), "{flags}");
    }
}

/// A small PNG whose colour profile inflates to 200 MB.
fn vast_profile() -> Vec<u8> {
    let mut packed = ZlibEncoder::new(b"name\0\0".to_vec(), Compression::best());
    (0..200).for_each(|_| packed.write_all(&vec![0; 1 << 20]).unwrap());
    let whole = png(photo(8, 8));
    [&whole[..33], &chunk(b"iCCP", &packed.finish().unwrap()), &whole[33..]].concat()
}

#[test]
fn a_profile_that_inflates_takes_little_memory() {
    let folder = dir();
    let write = |bytes: &[u8]| std::fs::write(folder.path().join("in.tar"), many(2, bytes).whole()).unwrap();
    let bomb = vast_profile();
    assert!(bomb.len() < 400_000);
    for (tool, flags) in [("tarresize", "-p 1 -s 4"), ("tarshow", "-p 1"), ("tarshow", "-p 1 --sheet s.png")] {
        write(&png(photo(8, 8)));
        let base = peak_memory(folder.path(), tool, &format!("{flags} in.tar"));
        write(&bomb);
        let peak = peak_memory(folder.path(), tool, &format!("{flags} in.tar"));
        assert!(peak < base + (64 << 20), "{tool} {flags}: {peak} bytes, {base} without it");
    }
    write(&bomb);
    let out = words("tarresize", "-s 4 in.tar").cwd(folder.path()).ok();
    assert_eq!(names(&out), ["0.jpg", "0.json", "1.jpg", "1.json"]);
}

/// Every format, and the flags that take most memory with it.
fn hungry() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let (width, height) = (1600, 1200);
    let image = photo(width, height);
    let rgba = RgbaImage::from_fn(width, height, |x, y| image::Rgba([x as u8, y as u8, 90, (x ^ y) as u8]));
    let jpeg = jpeg_of(image.as_raw(), (width, height), ColorType::Rgb, SamplingFactor::F_1_1);
    let mut progressive = Vec::new();
    let mut encoder = Encoder::new(&mut progressive, 90);
    encoder.set_progressive(true);
    encoder.encode(image.as_raw(), width as u16, height as u16, ColorType::Rgb).unwrap();
    let turned = with_segment(&jpeg, 0xe1, &exif(6));
    let mut images = vec![
        ("jpeg", "-m no", jpeg),
        ("turned jpeg", "-m no --format png", turned.clone()),
        ("turned jpeg, small", "-s 600", turned),
        ("progressive jpeg", "-s 100 --format webp", progressive.clone()),
        ("progressive jpeg", "-m no --progressive --subsampling 444", progressive),
        ("png", "-m no --format webp", png(image.clone())),
        ("png", "-s 1500 --up lanczos", png(image.clone())),
        ("png of 16 bits", "-s 100", png(DynamicImage::from(image.clone()).to_rgb16())),
        ("png with alpha", "-m no", png(rgba.clone())),
        ("png with alpha", "-s 1000 --down lanczos --format png", png(rgba.clone())),
        ("webp", "-s 100", encoded(image.clone(), ImageFormat::WebP)),
        ("webp with alpha", "-s 100 --format webp", encoded(rgba, ImageFormat::WebP)),
        ("gif", "-s 100", encoded(image.clone(), ImageFormat::Gif)),
        ("bmp", "-s 100", encoded(image.clone(), ImageFormat::Bmp)),
        ("tiff", "-s 100", encoded(image.clone(), ImageFormat::Tiff)),
        ("pnm", "-s 100", encoded(image, ImageFormat::Pnm)),
    ];
    // Files of the same size, made by libavif, OpenJPEG and libjxl.
    let mut add = |names: &[&'static str]| images.extend(names.iter().map(|name| (*name, "-s 100", picture(name))));
    if cfg!(feature = "avif") {
        add(&["large.avif", "large-rgba.avif"]);
    }
    if cfg!(feature = "jpeg2000") {
        add(&["large.jp2"]);
    }
    if cfg!(feature = "jpegxl") {
        add(&["large.jxl", "large-rgba.jxl"]);
    }
    images
}

#[test]
fn no_image_takes_more_memory_than_is_counted_for_it() {
    let folder = dir();
    let input = folder.path().join("in.tar");
    std::fs::write(&input, many(2, &blank(3, 3)).whole()).unwrap();
    let base = peak_memory(folder.path(), "tarresize", "-p 1 -s 16 in.tar");
    for (what, flags, bytes) in hungry() {
        std::fs::write(&input, Archive::new().file("a.jpg", &bytes).whole()).unwrap();
        let need = needed(flags, &bytes);
        let peak = peak_memory(folder.path(), "tarresize", &format!("-p 1 {flags} in.tar"));
        // The sample itself is counted elsewhere, and read in blocks that grow by doubling.
        let sample = 2 * bytes.len() as u64;
        let taken = peak.saturating_sub(base + sample);
        assert!(taken <= need + (4 << 20), "{what}, {flags}: {taken} bytes taken, {need} counted");
    }
}
