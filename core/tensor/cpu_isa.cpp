// What oneDNN uses of the processor. It reads the level that it is limited to from its environment,
// whatever the case of the letters, and takes a word that it does not know for no limit at all.
#include "core/tensor/cpu_isa.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <oneapi/dnnl/dnnl.hpp>

#include "cohort/tensor/device.hpp"
#include "core/system/launch_env.hpp"

namespace cohort {
namespace {

constexpr std::string_view kLevels[] = {"sse41",
                                        "avx",
                                        "avx2",
                                        "avx2_vnni",
                                        "avx2_vnni_2",
                                        "avx512_core",
                                        "avx512_core_vnni",
                                        "avx512_core_bf16",
                                        "avx512_core_fp16",
                                        "avx512_core_amx",
                                        "avx512_core_amx_fp16"};

// Names of oneDNN 3 for levels that it also has under the older names, as which it tells them.
struct OtherName {
    std::string_view name;
    std::string_view level;
};
constexpr OtherName kOtherNames[] = {{"avx10_1_512", "avx512_core_fp16"},
                                     {"avx10_1_512_amx", "avx512_core_amx"},
                                     {"avx10_1_512_amx_fp16", "avx512_core_amx_fp16"}};

std::string in_letters(std::string_view text, int (*change)(int)) {
    std::string result(text);
    std::ranges::transform(result, result.begin(), [change](char c) {
        return static_cast<char>(change(static_cast<unsigned char>(c)));
    });
    return result;
}

}  // namespace

std::string cpu_isa() {
    switch (dnnl::get_effective_cpu_isa()) {
        case dnnl::cpu_isa::sse41: return "sse41";
        case dnnl::cpu_isa::avx: return "avx";
        case dnnl::cpu_isa::avx2: return "avx2";
        case dnnl::cpu_isa::avx2_vnni: return "avx2_vnni";
        case dnnl::cpu_isa::avx512_core: return "avx512_core";
        case dnnl::cpu_isa::avx512_core_vnni: return "avx512_core_vnni";
        case dnnl::cpu_isa::avx512_core_bf16: return "avx512_core_bf16";
        case dnnl::cpu_isa::avx512_core_amx: return "avx512_core_amx";
#if DNNL_VERSION_MAJOR >= 3
        case dnnl::cpu_isa::avx2_vnni_2: return "avx2_vnni_2";
        case dnnl::cpu_isa::avx512_core_fp16: return "avx512_core_fp16";
        case dnnl::cpu_isa::avx512_core_amx_fp16: return "avx512_core_amx_fp16";
#endif
        default: return "generic";
    }
}

std::string dnnl_version_text() {
    const dnnl_version_t* version = dnnl_version();
    return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
           std::to_string(version->patch);
}

std::string level_doubt(std::string_view variable, std::string_view level, std::string_view used) {
    std::string word = in_letters(level, std::tolower);
    const auto* const other = std::ranges::find(kOtherNames, word, &OtherName::name);
    if (other != std::end(kOtherNames)) {
        word = other->level;
    }
    if (word.empty() || word == used || word == "all" || word == "default") {
        return {};
    }
    const bool known = std::ranges::find(kLevels, word) != std::end(kLevels);
    std::string doubt = std::string(variable) + "=" + std::string(level) + ": ";
    if (known) {
        doubt += "this processor, or this version of oneDNN, does not have it";
    } else {
        doubt += "not a level that is known here; expected";
        for (const std::string_view name : kLevels) {
            doubt += " " + in_letters(name, std::toupper) + ",";
        }
        doubt += " or ALL";
    }
    return doubt + "; oneDNN uses " + std::string(used);
}

std::string cpu_isa_doubt() {
    const std::optional<CpuLevelVariable> variable = cpu_level_variable();
    return variable ? level_doubt(variable->name, variable->level, cpu_isa()) : "";
}

}  // namespace cohort
