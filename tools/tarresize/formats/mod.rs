//! Image files: what a header says before anything is decoded, and the decoders and encoders of every format. JPEG has
//! its own folder, because it can be resized without leaving its planes.

pub mod avif;
pub mod chunks;
pub mod decode;
pub mod encode;
pub mod exif_tags;
pub mod header;
#[cfg(feature = "jpeg2000")]
pub mod jpeg2000;
#[cfg(feature = "jpegxl")]
pub mod jpegxl;
pub mod tiff;
