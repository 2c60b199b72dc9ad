//! A contact sheet: a grid of thumbnails with key and caption under each.

use std::io::{Cursor, Write};

use anyhow::{Result, bail};
use image::codecs::jpeg::JpegEncoder;
use image::{ImageFormat, Rgb, RgbImage, imageops};
use tarpipe::cli::{Usage, refuse_terminal};
use tarpipe::sink::{Sink, SinkOptions};
use tarpipe::tally::Tally;

use crate::tarshow::args::Args;
use crate::tarshow::pictures::card::{CardMaker, SampleCard};
use crate::tarshow::pictures::font;
use crate::tarshow::reservoir::Reservoir;
use crate::tarshow::samples::{self, SelectedSamples};

const DEFAULT_NUMBER: usize = 60;
/// A larger sheet would be unusable and take too much memory.
const MAX_NUMBER: usize = 2_000;
const MAX_PIXELS: u64 = 400_000_000;
const JPEG_QUALITY: u8 = 88;

const MARGIN: u32 = 24;
const GAP: u32 = 20;
/// The space between a thumbnail and its text.
const TEXT_GAP: u32 = 6;
const CAPTION_LINES: usize = 2;

const BACKGROUND: Rgb<u8> = Rgb([255; 3]);
const PLACEHOLDER: Rgb<u8> = Rgb([240; 3]);
const KEY_COLOR: [u8; 3] = [24; 3];
const CAPTION_COLOR: [u8; 3] = [110; 3];

/// Draws the first samples, or a random choice, and writes the sheet.
pub fn write(args: &Args, file: &str) -> Result<Tally> {
    let format = format_of(file)?;
    refuse_terminal(file)?;
    let number = args.number.unwrap_or(DEFAULT_NUMBER);
    SheetGrid::new(number, args.side)?; // report usage errors before reading anything
    let mut sink = Sink::create(file, SinkOptions::default())?;
    let (cards, tally) = make_cards(args, number)?;
    let sheet = SheetGrid::new(cards.len().max(1), args.side)?.draw(&cards);
    sink.write_all(&encode(&sheet, format)?)?;
    sink.finish()?;
    Ok(tally)
}

fn format_of(file: &str) -> Result<ImageFormat> {
    match file.rsplit_once('.').map(|(_, suffix)| suffix.to_ascii_lowercase()).as_deref() {
        Some("jpg" | "jpeg") => Ok(ImageFormat::Jpeg),
        Some("png") => Ok(ImageFormat::Png),
        _ => bail!(Usage(format!("--sheet {file}: unknown image format; use a .jpg or .png file"))),
    }
}

/// Makes the cards of the samples to show, in the order of the stream.
fn make_cards(args: &Args, number: usize) -> Result<(Vec<SampleCard>, Tally)> {
    let selected = SelectedSamples::open_first(args, (!args.random).then_some(number as u64))?;
    let maker = CardMaker::new(args, args.side, args.side);
    let mut chosen: Vec<Option<(u64, SampleCard)>> = (0..number).map(|_| None).collect();
    let tally = samples::prepare_with_choice(
        args,
        selected,
        Reservoir::new(number, args.seed),
        move |numbered| Ok(numbered.slot.map(|slot| (slot, numbered.number, maker.card(&numbered.sample)))),
        |card| {
            if let Some((slot, number, card)) = card {
                chosen[slot] = Some((number, card));
            }
            Ok(())
        },
    )?;
    let mut cards: Vec<(u64, SampleCard)> = chosen.into_iter().flatten().collect();
    cards.sort_by_key(|(number, _)| *number);
    Ok((cards.into_iter().map(|(_, card)| card).collect(), tally))
}

/// The layout of the sheet.
struct SheetGrid {
    columns: u32,
    rows: u32,
    side: u32,
}

impl SheetGrid {
    fn new(number: usize, side: u32) -> Result<Self> {
        if number == 0 || number > MAX_NUMBER {
            bail!(Usage(format!("-n {number}: out of range; a sheet shows 1 to {MAX_NUMBER} samples")));
        }
        let number = number as u32;
        // Aim for a sheet of 4:3, like a screen.
        let ideal = (f64::from(number) * 4.0 / 3.0 * f64::from(cell_height(side)) / f64::from(side + GAP)).sqrt();
        let columns = (ideal.round() as u32).clamp(1, number);
        let grid = SheetGrid { columns, rows: number.div_ceil(columns), side };
        let (width, height) = grid.size();
        if u64::from(width) * u64::from(height) > MAX_PIXELS || width.max(height) > u32::from(u16::MAX) {
            bail!(Usage(format!("{number} thumbnails of {side} pixels do not fit on one sheet; lower -n or --side")));
        }
        Ok(grid)
    }

    fn size(&self) -> (u32, u32) {
        let width = 2 * MARGIN + self.columns * (self.side + GAP) - GAP;
        (width, 2 * MARGIN + self.rows * cell_height(self.side) - GAP)
    }

    fn draw(&self, cards: &[SampleCard]) -> RgbImage {
        let (width, height) = self.size();
        let mut sheet = RgbImage::from_pixel(width, height, BACKGROUND);
        for (at, card) in (0..).zip(cards) {
            let x = MARGIN + at % self.columns * (self.side + GAP);
            let y = MARGIN + at / self.columns * cell_height(self.side);
            self.draw_card(&mut sheet, (x, y), card);
        }
        sheet
    }

    fn draw_card(&self, sheet: &mut RgbImage, (x, y): (u32, u32), card: &SampleCard) {
        let columns = (self.side / font::WIDTH).max(1) as usize;
        match &card.picture {
            // Align pictures at the bottom, just above their text.
            Ok(picture) => {
                let top = y + self.side - picture.height();
                imageops::replace(sheet, picture, i64::from(x), i64::from(top));
            }
            Err(why) => {
                let empty = RgbImage::from_pixel(self.side, self.side, PLACEHOLDER);
                imageops::replace(sheet, &empty, i64::from(x), i64::from(y));
                font::draw(sheet, (x + 8, y + self.side / 2 - 8), why, CAPTION_COLOR);
            }
        }
        let mut y = y + self.side + TEXT_GAP;
        font::draw(sheet, (x, y), &truncate_start(&card.key, columns), KEY_COLOR);
        for line in font::wrap(&card.short_caption(), columns, CAPTION_LINES) {
            y += font::LINE;
            font::draw(sheet, (x, y), &line, CAPTION_COLOR);
        }
    }
}

fn cell_height(side: u32) -> u32 {
    side + TEXT_GAP + (1 + CAPTION_LINES as u32) * font::LINE + GAP
}

/// Keys differ at their end, so the start is cut.
fn truncate_start(key: &str, columns: usize) -> String {
    let count = key.chars().count();
    if count <= columns {
        return key.to_owned();
    }
    let tail: String = key.chars().skip(count - columns.saturating_sub(3)).collect();
    format!("...{tail}")
}

fn encode(sheet: &RgbImage, format: ImageFormat) -> Result<Vec<u8>> {
    let mut out = Cursor::new(Vec::new());
    match format {
        ImageFormat::Jpeg => sheet.write_with_encoder(JpegEncoder::new_with_quality(&mut out, JPEG_QUALITY))?,
        _ => sheet.write_to(&mut out, format)?,
    }
    Ok(out.into_inner())
}
