#pragma once

namespace cohort {

/// Floating-point operations per second of a product of matrices of single precision that lie in
/// cache, on the calling thread: what layers made of products are compared with. Takes some
/// hundredths of a second.
[[nodiscard]] double product_flops_per_second();

}  // namespace cohort
