//! How the address of a thread-local block is asked for in code that may be part of any artifact.

/// Defines a function that returns the distance of a thread-local symbol of this artifact from the thread pointer, on
/// the calling thread, by a TLS descriptor. For x86-64 Linux.
///
/// `lea` and `call` are the sequence that the linker knows: in an executable it makes a constant of them. In a library
/// the loader's function is a load and a `ret` where the block is static; where it is not, it finds the block. Two
/// traps: the call pushes below the stack pointer, and the slow way wants that aligned, so the assembly must not say
/// `nostack`; and glibc before 2.40 may use vector registers there, so they are declared lost.
#[macro_export]
macro_rules! tls_descriptor {
    ($name:ident, $symbol:literal) => {
        #[cfg(not(target_feature = "avx512f"))]
        $crate::tls_descriptor! { $name, $symbol,
            "xmm0" "xmm1" "xmm2" "xmm3" "xmm4" "xmm5" "xmm6" "xmm7"
            "xmm8" "xmm9" "xmm10" "xmm11" "xmm12" "xmm13" "xmm14" "xmm15"
        }
        #[cfg(target_feature = "avx512f")]
        $crate::tls_descriptor! { $name, $symbol,
            "zmm0" "zmm1" "zmm2" "zmm3" "zmm4" "zmm5" "zmm6" "zmm7"
            "zmm8" "zmm9" "zmm10" "zmm11" "zmm12" "zmm13" "zmm14" "zmm15"
            "zmm16" "zmm17" "zmm18" "zmm19" "zmm20" "zmm21" "zmm22" "zmm23"
            "zmm24" "zmm25" "zmm26" "zmm27" "zmm28" "zmm29" "zmm30" "zmm31"
        }
    };
    ($name:ident, $symbol:literal, $($vector:tt)*) => {
        /// Distance of the thread's block from the thread pointer, by a TLS descriptor.
        #[inline(always)]
        fn $name() -> usize {
            let distance: usize;
            // SAFETY: the call sequence of the x86-64 TLS descriptor ABI: `rax` returns the distance, other general
            // registers are kept; all else that it may change is declared, and the stack is aligned for it.
            unsafe {
                ::core::arch::asm!(
                    concat!("lea rax, [rip + ", $symbol, "@TLSDESC]"),
                    concat!("call qword ptr [rax + ", $symbol, "@TLSCALL]"),
                    out("rax") distance,
                    $(out($vector) _,)*
                    out("k0") _, out("k1") _, out("k2") _, out("k3") _,
                    out("k4") _, out("k5") _, out("k6") _, out("k7") _,
                );
            }
            distance
        }
    };
}
