#pragma once

#include <string>
#include <string_view>

namespace cohort::cuda {

/// Whether a GPU of compute capability `major`.`minor` runs code built for
/// `architectures`, a list as in CMAKE_CUDA_ARCHITECTURES: machine code ("80-real") runs from its
/// minor number up within its major one, PTX ("90-virtual") on everything later, "90" is both. Of
/// names ("native") nothing is known: true.
[[nodiscard]] bool has_code_for(std::string_view architectures, int major, int minor);

/// The GPUs that this program was built for, in that form.
[[nodiscard]] std::string built_for();

/// Why this program has no code for GPU `index`; empty: it has code. Makes no context. Errors:
/// DeviceError.
[[nodiscard]] std::string lack_of_code(int index);

}  // namespace cohort::cuda
