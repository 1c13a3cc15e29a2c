#include "tensor/cpu_isa.hpp"

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
