#include "layers/cpu/dnnl_support.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <mutex>
#include <string>

namespace cohort {
namespace {

/// The first processor's lines of /proc/cpuinfo that tell processors apart, without frequencies.
std::string processor_name() {
    std::ifstream in("/proc/cpuinfo");
    std::string name;
    for (std::string line; std::getline(in, line) && !line.empty();) {
        const std::string key =
            line.substr(0, line.find_last_not_of("\t ", line.find(':') - 1) + 1);
        if (key == "model name" || key == "cpu family" || key == "model" || key == "stepping" ||
            key == "CPU implementer" || key == "CPU part") {
            name += line.substr(std::min(line.find(':') + 1, line.size()));
        }
    }
    return name;
}

/// oneDNN uses these instructions here; a set has a bit for each of its extensions.
bool uses(dnnl::cpu_isa wanted) {
    const auto bits = static_cast<unsigned>(wanted);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

}  // namespace

const dnnl::engine& dnnl_engine() {
    static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    return engine;
}

dnnl::stream& dnnl_stream() {
    thread_local dnnl::stream stream(dnnl_engine());
    return stream;
}

std::int64_t preferred_channel_block() {
    if (uses(dnnl::cpu_isa::avx512_core)) {
        return 16;
    }
    return uses(dnnl::cpu_isa::sse41) ? 8 : 1;
}

VectorLevel vector_level() {
#if defined(__x86_64__)
    const bool fused = __builtin_cpu_supports("fma") != 0;
    if (uses(dnnl::cpu_isa::avx512_core)) {
        return VectorLevel::kAvx512;
    }
    if (uses(dnnl::cpu_isa::avx2) && fused) {
        return VectorLevel::kAvx2;
    }
    if (uses(dnnl::cpu_isa::avx)) {
        return VectorLevel::kAvx;
    }
#endif
    return VectorLevel::kSse;
}

bool has_bf16_products() {
    return uses(dnnl::cpu_isa::avx512_core_bf16);
}

const std::string& kernel_machine() {
    static const std::string machine = [] {
        const dnnl_version_t& version = *dnnl_version();
        return "oneDNN " + std::to_string(version.major) + "." + std::to_string(version.minor) +
               "." + std::to_string(version.patch) + " isa " +
               std::to_string(static_cast<int>(dnnl::get_effective_cpu_isa())) + processor_name();
    }();
    return machine;
}

std::int64_t stored_channels(const TensorFormat& format) {
    return (format.shape[0] + format.block - 1) / format.block * format.block;
}

dnnl::memory::desc describe(const TensorFormat& format, std::int64_t samples) {
    using Tag = dnnl::memory::format_tag;
    const dnnl::memory::data_type type = dnnl_type(format.type);
    const Shape& shape = format.shape;
    if (shape.rank() == 1) {
        return {{samples, shape[0]}, type, Tag::nc};
    }
    check_invariant(shape.rank() == 3, "activations are [F] or [C,H,W]");
    const Tag tag = format.block == 16 ? Tag::nChw16c : format.block == 8 ? Tag::nChw8c : Tag::nchw;
    return {{samples, stored_channels(format), shape[1], shape[2]}, type, tag};
}

dnnl::primitive_attr user_scratchpad() {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attributes;
}

void require_code_memory() {
    constexpr std::size_t kBytes = std::size_t{32}
                                   << 20;  // of one primitive, its tables and kernels
    void* const probe =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (probe == MAP_FAILED) {
        fail<DeviceError>({.where = "cpu",
                           .what = "no memory for code that oneDNN generates",
                           .got = errno_text(errno),
                           .hint = "a higher limit of the address space (ulimit -v)"});
    }
    ::munmap(probe, kBytes);
}

void sgemm(char transpose_a, char transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
           const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
           std::int64_t ldc) {
    static std::once_flag first;  // of all calls: they generate what the others use
    std::call_once(first, require_code_memory);
    const dnnl_status_t status =
        dnnl_sgemm(transpose_a, transpose_b, m, n, k, 1.0F, a, lda, b, ldb, beta, c, ldc);
    if (status != dnnl_success) {
        fail<DeviceError>({.where = "matrix product",
                           .what = "dnnl_sgemm reported status " + std::to_string(status)});
    }
}

}  // namespace cohort
