//! `.xz` files in the shapes that occur: one block, and many.

use xz2::stream::{Action, Check, Filters, LzmaOptions, MtStreamBuilder, Status, Stream};

/// One stream of one block whose header does not say its size, as `xz -T1` writes it.
pub fn one_block(data: &[u8]) -> Vec<u8> {
    let stream = Stream::new_easy_encoder(1, Check::Crc64).expect("an encoder");
    run(stream, data)
}

/// One stream of blocks of `size` bytes, as `xz -T0` writes it.
pub fn blocks(data: &[u8], size: u64) -> Vec<u8> {
    let stream = MtStreamBuilder::new()
        .threads(2)
        .preset(0)
        .block_size(size)
        .check(Check::Crc64)
        .encoder()
        .expect("an encoder");
    run(stream, data)
}

/// One block that needs a dictionary of `bytes` to decode.
pub fn with_dictionary(data: &[u8], bytes: u32) -> Vec<u8> {
    let mut options = LzmaOptions::new_preset(0).expect("a preset");
    options.dict_size(bytes);
    let mut filters = Filters::new();
    filters.lzma2(&options);
    let stream = Stream::new_stream_encoder(&filters, Check::Crc64).expect("an encoder");
    run(stream, data)
}

fn run(mut stream: Stream, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut taken = 0;
    loop {
        out.reserve(1 << 16);
        let before = stream.total_in();
        let status = stream
            .process_vec(&data[taken..], &mut out, Action::Finish)
            .expect("compressing");
        taken += usize::try_from(stream.total_in() - before).expect("a size in memory");
        if status == Status::StreamEnd {
            return out;
        }
    }
}
