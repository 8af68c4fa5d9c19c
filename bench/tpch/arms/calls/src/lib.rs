//! The engine with every call of its allocator counted in shared counters: how often a query allocates.
//! It is slow and not for timing.

mod wrapper;

#[global_allocator]
static ALLOCATOR: wrapper::Calls = wrapper::Calls;

tpch_engine::library!("calls", Some(wrapper::account()));
