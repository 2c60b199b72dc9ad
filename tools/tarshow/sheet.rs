//! A contact sheet: a grid of thumbnails with key and caption under each.

use std::io::{Cursor, Write};

use anyhow::{Result, bail};
use image::codecs::jpeg::JpegEncoder;
use image::{ImageFormat, Rgb, RgbImage, imageops};
use tarpipe::cli::{Usage, refuse_terminal};
use tarpipe::sink::{Options, Sink};
use tarpipe::tally::Tally;

use crate::args::Args;
use crate::card::{Card, Maker};
use crate::flow::{self, Taken};
use crate::font;
use crate::reservoir::Reservoir;

const DEFAULT_NUMBER: usize = 60;
/// A sheet of more cannot be looked at, and has to be held in memory.
const MAX_NUMBER: usize = 2_000;
const MAX_PIXELS: u64 = 400_000_000;
const JPEG_QUALITY: u8 = 88;

const MARGIN: u32 = 24;
const GAP: u32 = 20;
/// Between a thumbnail and its text.
const LEAD: u32 = 6;
const CAPTION_LINES: usize = 2;

const PAPER: Rgb<u8> = Rgb([255; 3]);
const EMPTY: Rgb<u8> = Rgb([240; 3]);
const INK: [u8; 3] = [24; 3];
const FAINT: [u8; 3] = [110; 3];

/// Draws the first samples, or some at random, and writes the sheet.
pub fn write(args: &Args, file: &str) -> Result<Tally> {
    let format = format_of(file)?;
    refuse_terminal(file)?;
    let number = args.number.unwrap_or(DEFAULT_NUMBER);
    Grid::new(number, args.side)?; // a mistake is said before anything is read
    let mut sink = Sink::create(file, Options::default())?;
    let (cards, tally) = gather(args, number)?;
    let sheet = Grid::new(cards.len().max(1), args.side)?.draw(&cards);
    sink.write_all(&encode(&sheet, format)?)?;
    sink.finish()?;
    Ok(tally)
}

fn format_of(file: &str) -> Result<ImageFormat> {
    match file.rsplit_once('.').map(|(_, suffix)| suffix.to_ascii_lowercase()).as_deref() {
        Some("jpg" | "jpeg") => Ok(ImageFormat::Jpeg),
        Some("png") => Ok(ImageFormat::Png),
        _ => bail!(Usage(format!("--sheet {file}: a sheet is a .jpg or a .png file"))),
    }
}

/// The cards of the samples that are shown, in the order of the stream.
fn gather(args: &Args, number: usize) -> Result<(Vec<Card>, Tally)> {
    let taken = Taken::open_first(args, (!args.random).then_some(number as u64))?;
    let maker = Maker::new(args, args.side, args.side);
    let mut chosen: Vec<Option<(u64, Card)>> = (0..number).map(|_| None).collect();
    let tally = flow::run(
        args,
        taken,
        Reservoir::new(number, args.seed),
        move |job| Ok(job.place.map(|place| (place, job.number, maker.card(&job.sample)))),
        |card| {
            if let Some((place, number, card)) = card {
                chosen[place] = Some((number, card));
            }
            Ok(())
        },
    )?;
    let mut cards: Vec<(u64, Card)> = chosen.into_iter().flatten().collect();
    cards.sort_by_key(|(number, _)| *number);
    Ok((cards.into_iter().map(|(_, card)| card).collect(), tally))
}

/// Where everything stands.
struct Grid {
    columns: u32,
    rows: u32,
    side: u32,
}

impl Grid {
    fn new(number: usize, side: u32) -> Result<Self> {
        if number == 0 || number > MAX_NUMBER {
            bail!(Usage(format!("-n {number}: a sheet shows 1 to {MAX_NUMBER} samples")));
        }
        let number = number as u32;
        // As wide as a screen: four to three.
        let ideal = (f64::from(number) * 4.0 / 3.0 * f64::from(cell_height(side)) / f64::from(side + GAP)).sqrt();
        let columns = (ideal.round() as u32).clamp(1, number);
        let grid = Grid { columns, rows: number.div_ceil(columns), side };
        let (width, height) = grid.size();
        if u64::from(width) * u64::from(height) > MAX_PIXELS || width.max(height) > u32::from(u16::MAX) {
            bail!(Usage(format!("{number} thumbnails of {side} pixels are too many for one sheet")));
        }
        Ok(grid)
    }

    fn size(&self) -> (u32, u32) {
        let width = 2 * MARGIN + self.columns * (self.side + GAP) - GAP;
        (width, 2 * MARGIN + self.rows * cell_height(self.side) - GAP)
    }

    fn draw(&self, cards: &[Card]) -> RgbImage {
        let (width, height) = self.size();
        let mut sheet = RgbImage::from_pixel(width, height, PAPER);
        for (at, card) in (0..).zip(cards) {
            let x = MARGIN + at % self.columns * (self.side + GAP);
            let y = MARGIN + at / self.columns * cell_height(self.side);
            self.draw_card(&mut sheet, (x, y), card);
        }
        sheet
    }

    fn draw_card(&self, sheet: &mut RgbImage, (x, y): (u32, u32), card: &Card) {
        let columns = (self.side / font::WIDTH).max(1) as usize;
        match &card.picture {
            // Pictures stand on the line of their text.
            Ok(picture) => {
                let top = y + self.side - picture.height();
                imageops::replace(sheet, picture, i64::from(x), i64::from(top));
            }
            Err(why) => {
                let empty = RgbImage::from_pixel(self.side, self.side, EMPTY);
                imageops::replace(sheet, &empty, i64::from(x), i64::from(y));
                font::draw(sheet, (x + 8, y + self.side / 2 - 8), why, FAINT);
            }
        }
        let mut y = y + self.side + LEAD;
        font::draw(sheet, (x, y), &end_of(&card.key, columns), INK);
        for line in font::wrap(&card.short_caption(), columns, CAPTION_LINES) {
            y += font::LINE;
            font::draw(sheet, (x, y), &line, FAINT);
        }
    }
}

fn cell_height(side: u32) -> u32 {
    side + LEAD + (1 + CAPTION_LINES as u32) * font::LINE + GAP
}

/// Keys differ at their end.
fn end_of(key: &str, columns: usize) -> String {
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
