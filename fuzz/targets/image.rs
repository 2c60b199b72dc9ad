//! Feeds any bytes to tarresize as an image, with one of several sets of flags.

#![no_main]
#![allow(dead_code, reason = "a target uses a part of its tool")]

#[path = "../../tools/tarresize"]
mod tarresize {
    pub mod args;
    pub mod failure;
    pub mod formats;
    pub mod geometry;
    pub mod image_job;
    pub mod image_resizer;
    pub mod jpeg;
    pub mod memory_estimate;
    pub mod options;
    pub mod pixels;
    pub mod sample_resizer;
}

use std::cell::RefCell;

use clap::Parser;
use libfuzzer_sys::fuzz_target;
use tarpipe::run::memory::MemoryBudget;
use tarpipe::sample::{Member, Sample};

use tarresize::args;
use tarresize::formats::header;
use tarresize::image_resizer::ImageResizer;
use tarresize::sample_resizer::SampleResizer;

/// Sets of flags; the first byte of the input selects one.
const FLAGS: [&str; 6] = [
    "-s 16 --exif",
    "-s 16 --allow-truncated --format png",
    "-m no --skip-reencode --format keep",
    "-s 24x8 -m border --format webp --icc keep",
    "-s 8 -m center_crop --up nearest --down lanczos --orient keep --icc ignore",
    "-s 20 --background black --color rgb --blur boxes",
];

/// More than any accepted image needs.
const MEMORY: u64 = 1 << 30;

fn sample_resizer(flags: &str) -> SampleResizer {
    let args = args::Args::try_parse_from(["tarresize"].into_iter().chain(flags.split(' ')));
    args.expect("valid flags").sample_resizer(MEMORY).expect("compatible flags")
}

thread_local! {
    static GUARD: () = tarpipe::run::panics::silence(); // a panic of a decoder fails its image only, as in the tool
    static SAMPLE_RESIZERS: Vec<SampleResizer> = FLAGS.map(sample_resizer).into();
    static RESIZER: RefCell<ImageResizer> = RefCell::new(ImageResizer::new(1 << 20));
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    // Larger images are valid, but take too long to fuzz.
    if header::read(bytes).is_ok_and(|header| header.size.area() > 1 << 16) {
        return;
    }
    let json = br#"{"boxes": [[0.1, 0.1, 0.5, 0.6]]}"#.to_vec();
    let members = vec![Member::new("jpg", bytes.to_vec()), Member::new("json", json)];
    let mut sample = Sample { key: "a".into(), mtime: 0, source: "fuzz".into(), members };
    GUARD.with(|()| ());
    SAMPLE_RESIZERS.with(|sample_resizers| {
        RESIZER.with_borrow_mut(|resizer| {
            let turn = MemoryBudget::new(MEMORY).turns(std::iter::once(())).next().expect("a turn").0;
            let sample_resizer = &sample_resizers[usize::from(choice) % sample_resizers.len()];
            let (images, _held) = sample_resizer.process(&mut sample, resizer, turn);
            for done in images.iter().filter_map(|image| image.result.as_ref().ok()) {
                assert!(done.size.width > 0 && done.size.height > 0);
            }
        });
    });
});
