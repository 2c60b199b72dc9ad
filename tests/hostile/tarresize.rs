//! Images that lie, end early, or would not end.

use crate::support::{Archive, archives::noise, peak_memory, words};
use crate::tarresize::{decoded, encoded, exif, jpeg, photo, png, refused, resized, with_segment};
use image::ImageFormat;

/// A chunk of a PNG.
pub fn chunk(name: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let named = [name.as_slice(), body].concat();
    [&(body.len() as u32).to_be_bytes(), named.as_slice(), &crc(&named).to_be_bytes()].concat()
}

fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

/// A PNG that claims a size and has some data.
fn vast_png(side: u32) -> Vec<u8> {
    let mut head = [side.to_be_bytes(), side.to_be_bytes()].concat();
    head.extend([8, 2, 0, 0, 0]);
    let parts = [chunk(b"IHDR", &head), chunk(b"IDAT", &vec![0; 200_000]), chunk(b"IEND", b"")];
    [b"\x89PNG\r\n\x1a\n".as_slice(), &parts.concat()].concat()
}

/// A JPEG whose header claims a size.
fn vast_jpeg(side: u16) -> Vec<u8> {
    let mut bytes = jpeg(&photo(16, 16));
    let at = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap() + 5;
    bytes[at..at + 2].copy_from_slice(&side.to_be_bytes());
    bytes[at + 2..at + 4].copy_from_slice(&side.to_be_bytes());
    bytes
}

/// An animated WebP with many frames of one picture.
pub fn endless_webp(frames: usize) -> Vec<u8> {
    let still = encoded(photo(16, 16), ImageFormat::WebP);
    let riff = |name: &[u8; 4], body: &[u8]| [name.as_slice(), &(body.len() as u32).to_le_bytes(), body].concat();
    let frame = [[0; 6].as_slice(), &[15, 0, 0, 15, 0, 0, 10, 0, 0, 0], &still[12..]].concat();
    let mut body = b"WEBP".to_vec();
    body.extend(riff(b"VP8X", &[2, 0, 0, 0, 15, 0, 0, 15, 0, 0]));
    body.extend(riff(b"ANIM", &[0; 6]));
    (0..frames).for_each(|_| body.extend(riff(b"ANMF", &frame)));
    riff(b"RIFF", &body)
}

/// Images that no tool can use: what each is, its bytes, and the code under which tarresize counts it.
pub fn corpus() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let (whole, small) = (jpeg(&photo(200, 160)), png(photo(50, 40)));
    vec![
        ("nothing", vec![], "unsupported"),
        ("a page", b"<!DOCTYPE html><html>not found</html>".to_vec(), "unsupported"),
        (
            "an SVG that names a file",
            b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>".to_vec(),
            "unsupported",
        ),
        ("noise", noise(7, 5_000), "unsupported"),
        ("a JPEG of markers alone", b"\xff\xd8\xff\xd9".to_vec(), "decode"),
        ("a JPEG cut in its head", whole[..30].to_vec(), "truncated"),
        ("a JPEG cut in its data", whole[..whole.len() / 2].to_vec(), "truncated"),
        ("a JPEG of 65,500 by 65,500", vast_jpeg(65_500), "bomb"),
        ("a PNG of magic alone", b"\x89PNG\r\n\x1a\n".to_vec(), "truncated"),
        ("a PNG of 60,000 by 60,000", vast_png(60_000), "bomb"),
        ("a PNG cut in its data", small[..small.len() / 2].to_vec(), "truncated"),
        ("a WebP of 10,000 frames", endless_webp(10_000), "bomb"),
    ]
}

#[test]
fn bombs_are_refused_before_they_are_decoded() {
    for bytes in [vast_png(60_000), vast_jpeg(65_500), endless_webp(10_000)] {
        refused("-s 16", &bytes, "bomb");
    }
    let (_, out, _) = resized("-m no", "webp", &endless_webp(3));
    assert_eq!(decoded(&out).width(), 16);
}

#[test]
fn refusing_bombs_takes_little_memory() {
    for bytes in [vast_png(60_000), vast_jpeg(65_500)] {
        let folder = crate::support::dir();
        std::fs::write(folder.path().join("in.tar"), Archive::new().file("a.jpg", &bytes).whole()).unwrap();
        let peak = peak_memory(folder.path(), "tarresize", "-p 1 -s 16 in.tar");
        assert!(peak <= 64 << 20, "{peak} bytes");
    }
}

#[test]
fn images_that_end_early_fail_or_are_kept_as_far_as_they_go() {
    let original = photo(200, 160);
    let whole = [
        jpeg(&original),
        png(original.clone()),
        encoded(original.clone(), ImageFormat::Bmp),
        encoded(original, ImageFormat::Pnm),
    ];
    for bytes in whole {
        for share in [60, 90] {
            let cut = &bytes[..bytes.len() * share / 100];
            refused("-s 80", cut, "truncated");
            let (_, out, facts) = resized("-s 80 --allow-truncated", "jpg", cut);
            assert_eq!((decoded(&out).height(), facts["width"].as_u64()), (80, Some(100)));
        }
    }
    let webp = encoded(photo(200, 160), ImageFormat::WebP);
    refused("-s 80 --allow-truncated", &webp[..webp.len() / 2], "truncated");
    refused("-s 80", &jpeg(&photo(9, 9))[..30], "truncated");
}

// The decoder in Rust draws gray over such a hole and says nothing.
#[cfg(feature = "turbojpeg")]
#[test]
fn a_cut_that_is_hidden_behind_an_end_marker_is_seen() {
    let bytes = jpeg(&photo(200, 160));
    let mut cut = bytes[..bytes.len() / 2].to_vec();
    cut.extend([0xff, 0xd9]);
    let archive = Archive::new().file("a.jpg", &cut).whole();
    let done = words("tarresize", "-s 80").stdin(archive).done().status(3);
    assert!(["truncated", "decode"].iter().any(|code| done.stderr_text().contains(code)), "{}", done.stderr_text());
}

#[test]
fn unknown_formats_have_their_own_code() {
    refused("-s 16", b"", "unsupported");
    refused("-s 16", b"<html>not found</html>", "unsupported");
    refused("-s 16", &noise(7, 5_000), "unsupported");
    refused("-s 16", b"\xff\xd8\xff\xd9", "decode");
    refused("-s 16", b"\x89PNG\r\n\x1a\n", "truncated");
}

#[test]
fn damaged_images_never_crash() {
    let seeds = [
        jpeg(&photo(50, 40)),
        with_segment(&jpeg(&photo(50, 40)), 0xe1, &exif(6)),
        png(photo(50, 40)),
        encoded(photo(50, 40), ImageFormat::WebP),
        encoded(photo(50, 40), ImageFormat::Gif),
        encoded(photo(50, 40), ImageFormat::Bmp),
        encoded(photo(50, 40), ImageFormat::Tiff),
        encoded(photo(50, 40), ImageFormat::Pnm),
        endless_webp(3),
    ];
    let mut archive = Archive::new();
    for (i, seed) in seeds.iter().enumerate() {
        for round in 0..60_u64 {
            let mut bytes = seed.clone();
            let dice = noise(i as u64 * 1000 + round, 16);
            let reach = if round % 2 == 0 { bytes.len() } else { bytes.len().min(200) };
            for pair in dice.chunks_exact(4) {
                let at = usize::from(u16::from_le_bytes([pair[0], pair[1]])) % reach;
                bytes[at] = pair[2];
            }
            archive = archive.file(&format!("s{i}-{round:02}.jpg"), &bytes);
        }
    }
    let archive = archive.whole();
    for flags in ["-s 16 --exif", "-s 16 --allow-truncated --format png", "-m no --skip-reencode --format keep"] {
        words("tarresize", flags).stdin(archive.clone()).done().status(0);
    }
}
