#include "core/tensor/cpu_isa.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cohort/tensor/device.hpp"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CpuIsa, IsNotDoubtedWhereOneDnnUsesWhatItIsTold) {
    for (const char* level : {"AVX2", "avx2", "Avx2", "", "ALL", "default"}) {
        EXPECT_EQ(level_doubt("DNNL_MAX_CPU_ISA", level, "avx2"), "") << level;
    }
}

TEST(CpuIsa, SaysWhatTheProcessorLacks) {
    EXPECT_EQ(level_doubt("DNNL_MAX_CPU_ISA", "AVX512_CORE", "avx2"),
              "DNNL_MAX_CPU_ISA=AVX512_CORE: this processor, or this version of oneDNN, does not "
              "have it; oneDNN uses avx2");
}

TEST(CpuIsa, KnowsTheSecondNamesOfLevels) {
    const auto doubt = [](const char* level, const char* used) {
        return level_doubt("ONEDNN_MAX_CPU_ISA", level, used);
    };
    EXPECT_EQ(doubt("AVX10_1_512", "avx512_core_fp16"), "");
    EXPECT_EQ(doubt("avx10_1_512_amx", "avx512_core_amx"), "");
    EXPECT_EQ(doubt("AVX10_1_512_AMX_FP16", "avx512_core_amx_fp16"), "");
    EXPECT_THAT(doubt("AVX10_1_512_AMX", "avx2"),
                StartsWith("ONEDNN_MAX_CPU_ISA=AVX10_1_512_AMX: this processor, or this version"));
    EXPECT_THAT(doubt("AVX10_1_256", "avx2"), HasSubstr("not a level that is known here"));
}

TEST(CpuIsa, NamesTheLevelsForAWordThatIsNone) {
    EXPECT_THAT(level_doubt("ONEDNN_MAX_CPU_ISA", "AVX3", "avx512_core"),
                AllOf(StartsWith("ONEDNN_MAX_CPU_ISA=AVX3: not a level"), HasSubstr(" SSE41, AVX,"),
                      EndsWith("; oneDNN uses avx512_core")));
}

TEST(CpuIsa, TakesTheVariableThatOneDnnTakes) {
    setenv("DNNL_MAX_CPU_ISA", "FIRST", 1);
    EXPECT_THAT(cpu_isa_doubt(), StartsWith("DNNL_MAX_CPU_ISA=FIRST"));
    setenv("ONEDNN_MAX_CPU_ISA", "SECOND", 1);
    EXPECT_THAT(cpu_isa_doubt(), StartsWith("ONEDNN_MAX_CPU_ISA=SECOND"));
    unsetenv("DNNL_MAX_CPU_ISA");
    unsetenv("ONEDNN_MAX_CPU_ISA");
    EXPECT_EQ(cpu_isa_doubt(), "");
}

}  // namespace
}  // namespace cohort
