#include "cohort/layers/layer.hpp"

#include <mutex>

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "layers/cpu/dnnl_support.hpp"
#include "layers/kernels.hpp"

namespace cohort {

std::int64_t TensorFormat::sample_floats() const noexcept {
    if (shape.rank() != 3 || block == 1) {
        return shape.elements();
    }
    return (shape[0] + block - 1) / block * block * shape[1] * shape[2];
}

const Shape& only_input(std::string_view layer, std::span<const Shape> inputs, int rank) {
    if (inputs.size() != 1 || (rank != 0 && inputs[0].rank() != rank)) {
        fail<ShapeError>({.where = layer,
                          .what = "input does not fit",
                          .expected = rank == 3   ? "one input [C,H,W]"
                                      : rank == 2 ? "one input [T,F]"
                                      : rank == 1 ? "one input [F]"
                                                  : "one input",
                          .got = inputs.size() == 1 ? to_string(inputs[0])
                                                    : std::to_string(inputs.size()) + " inputs"});
    }
    return inputs[0];
}

std::unique_ptr<KernelSupport> make_kernel_support(Device& device, Stream& stream,
                                                   Precision precision, bool deterministic) {
    if (device.kind() == DeviceKind::kCuda) {
        return make_cuda_support(device, stream, precision, deterministic);
    }
    return nullptr;
}

Precision cpu_precision(Precision asked, bool anywhere) {
    if (asked == Precision::kTf32 || asked == Precision::kF16) {
        fail<UsageError>({.where = "--precision",
                          .what = "only GPUs compute in it (GPUs: " + usable_gpus().detail + ")",
                          .expected = "f32 or bf16 on the CPU",
                          .got = word_of(asked)});
    }
    if (asked == Precision::kF32 || anywhere || has_bf16_products()) {
        return asked;
    }
    static std::once_flag said;
    std::call_once(said, [] {
        log_warn(
            "--precision bf16: this processor ({}) has neither AMX nor AVX-512 BF16; it "
            "computes in f32",
            cpu_isa());
    });
    return Precision::kF32;
}

}  // namespace cohort
