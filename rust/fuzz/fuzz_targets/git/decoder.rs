#![no_main]
#[global_allocator]
static ALLOCATOR: fuzztargets::Counting = fuzztargets::Counting;
libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzztargets::Target::named("decoder").expect("a target").run(data));
