//! What the markers of a JPEG 2000 codestream say about tiles, precincts and code blocks. The decoder keeps a record of
//! each, and a few bytes can ask for one for every pixel, so that memory depends on them more than on the size.

use crate::tarresize::failure::ImageFailure;
use crate::tarresize::geometry::PixelSize;

mod marker {
    pub const SIZ: u8 = 0x51;
    pub const COD: u8 = 0x52;
    pub const COC: u8 = 0x53;
    pub const QCD: u8 = 0x5c;
    pub const QCC: u8 = 0x5d;
    pub const SOT: u8 = 0x90;
    pub const SOD: u8 = 0x93;
    pub const EOC: u8 = 0xd9;
    /// Markers without a segment.
    pub const BARE: std::ops::RangeInclusive<u8> = 0x30..=0x3f;
}

/// The most tiles of the standard, whose tile parts have an index of 16 bits.
const MAX_TILES: u64 = 65_535;

/// The largest exponent of a side of a code block.
const MAX_BLOCK_EXPONENT: u8 = 10;

/// The blocks of a codestream.
#[derive(Debug)]
pub struct BlockLayout {
    tiles: u64,
    /// The size of a tile on the reference grid, within the image.
    tile: PixelSize,
    components: u64,
    /// The smallest exponents of the sides of a block in any component of any tile.
    exponents: (u8, u8),
    layers: u64,
    levels: u64,
}

impl BlockLayout {
    /// Reads the markers of a codestream up to its end, or to where it is damaged. Segments whose length does not match
    /// their contents are refused, because a decoder may continue elsewhere.
    pub fn read(stream: &[u8]) -> Result<Self, ImageFailure> {
        let siz = segment(stream, 4).filter(|_| stream.get(3) == Some(&marker::SIZ)).ok_or_else(invalid)?;
        let mut layout = Self::from_size(siz)?;
        let mut at = 4 + 2 + siz.len();
        // Where the data of the current tile part ends.
        let mut part_end: Option<usize> = None;
        while let Some(&[0xff, kind]) = stream.get(at..at + 2) {
            at += 2;
            match kind {
                marker::SOD => at = part_end.take().ok_or_else(invalid)?.max(at),
                marker::EOC => break,
                kind if marker::BARE.contains(&kind) => {}
                _ => {
                    let Some(body) = segment(stream, at) else { break };
                    if kind == marker::SOT {
                        part_end = Some(tile_part_end(body, at - 2, stream.len())?);
                    }
                    layout.add_segment(kind, body)?;
                    at += 2 + body.len();
                }
            }
        }
        Ok(layout)
    }

    fn from_size(siz: &[u8]) -> Result<Self, ImageFailure> {
        let word =
            |i: usize| siz.get(2 + i * 4..6 + i * 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
        let field = |i: usize| word(i).ok_or_else(invalid);
        let (grid, tile, offset) = ((field(0)?, field(1)?), (field(4)?, field(5)?), (field(6)?, field(7)?));
        let components = siz.get(34..36).ok_or_else(invalid)?.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        let count = |grid: u32, tile: u32, offset: u32| {
            if tile == 0 { u64::MAX } else { u64::from(grid.saturating_sub(offset)).div_ceil(tile.into()) }
        };
        let tiles = count(grid.0, tile.0, offset.0).saturating_mul(count(grid.1, tile.1, offset.1));
        if tiles > MAX_TILES || siz.len() as u64 != 36 + 3 * components {
            return Err(invalid());
        }
        let tile = PixelSize::new(tile.0.min(grid.0), tile.1.min(grid.1));
        let exponents = (MAX_BLOCK_EXPONENT, MAX_BLOCK_EXPONENT);
        Ok(BlockLayout { tiles, tile, components, exponents, layers: 1, levels: 0 })
    }

    fn add_segment(&mut self, kind: u8, body: &[u8]) -> Result<(), ImageFailure> {
        let component_len = if self.components < 257 { 1 } else { 2 };
        match (kind, body) {
            (marker::COD, [style, _, high, low, _, parameters @ ..]) => {
                self.layers = self.layers.max(u64::from(u16::from_be_bytes([*high, *low])));
                self.add_style(style & 1 == 1, parameters)
            }
            (marker::COC, _) => match body.get(component_len..) {
                Some([style, parameters @ ..]) => self.add_style(style & 1 == 1, parameters),
                _ => Err(invalid()),
            },
            (marker::QCD, [style, steps @ ..]) => check_steps(*style, steps),
            (marker::QCC, _) => match body.get(component_len..) {
                Some([style, steps @ ..]) => check_steps(*style, steps),
                _ => Err(invalid()),
            },
            (marker::COD | marker::QCD, _) => Err(invalid()),
            _ => Ok(()),
        }
    }

    fn add_style(&mut self, has_precincts: bool, parameters: &[u8]) -> Result<(), ImageFailure> {
        let [levels, width, height, _, _, precincts @ ..] = parameters else { return Err(invalid()) };
        let expected = if has_precincts { usize::from(*levels) + 1 } else { 0 };
        let (width, height) = (width.saturating_add(2), height.saturating_add(2));
        if precincts.len() != expected || width.max(height) > MAX_BLOCK_EXPONENT {
            return Err(invalid());
        }
        // Except at the lowest resolution, a precinct has half of its side in each of the bands.
        let sides = |size: &u8| ((size & 15).saturating_sub(1), (size >> 4).saturating_sub(1));
        let smallest = precincts
            .iter()
            .map(sides)
            .fold((width, height), |least, sides| (least.0.min(sides.0), least.1.min(sides.1)));
        self.exponents = (self.exponents.0.min(smallest.0), self.exponents.1.min(smallest.1));
        self.levels = self.levels.max((*levels).into());
        Ok(())
    }

    /// The memory for the records of all tiles, and of the blocks of one tile.
    pub fn record_bytes(&self) -> u64 {
        const TILE: u64 = 256;
        const TILE_COMPONENT: u64 = 1 << 10;
        // A code block, its precinct and the nodes of two trees, in lists that grow by doubling.
        const BLOCK: u64 = 640;
        const LAYER: u64 = 150;
        let along = |side: u32, exponent: u8| u64::from(side >> exponent) + 4;
        let in_bands = along(self.tile.width, self.exponents.0) * along(self.tile.height, self.exponents.1);
        let blocks = self.components * (in_bands + 12 * self.levels);
        self.tiles * (TILE + TILE_COMPONENT * self.components) + blocks * (BLOCK + LAYER * self.layers)
    }
}

/// The contents of the segment whose length is at `at`.
fn segment(stream: &[u8], at: usize) -> Option<&[u8]> {
    let len = u16::from_be_bytes(*stream.get(at..)?.first_chunk()?);
    stream.get(at + 2..at + usize::from(len))
}

/// The end of a tile part that starts at `start`: a length of 0 means the rest of the stream.
fn tile_part_end(body: &[u8], start: usize, stream_len: usize) -> Result<usize, ImageFailure> {
    let &[_, _, a, b, c, d, _, _] = body else { return Err(invalid()) };
    let len = u32::from_be_bytes([a, b, c, d]) as usize;
    Ok(if len == 0 { stream_len } else { start.saturating_add(len) })
}

/// Whether a segment of quantization steps has the length that its style implies.
fn check_steps(style: u8, steps: &[u8]) -> Result<(), ImageFailure> {
    let is_valid = match style & 31 {
        0 => true,
        1 => steps.len() == 2,
        _ => steps.len().is_multiple_of(2),
    };
    if is_valid { Ok(()) } else { Err(invalid()) }
}

fn invalid() -> ImageFailure {
    ImageFailure::decode("invalid JPEG 2000 markers")
}
