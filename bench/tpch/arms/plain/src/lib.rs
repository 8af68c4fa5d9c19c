//! The engine without an allocator of its own: what `std` gives, `malloc` of the C library.

tpch_engine::library!("plain", None);
