// Which device is taken, and what is said where there is no GPU.
#include <gmock/gmock.h>

#include <chrono>

#include "cohort/core/error.hpp"
#include "cohort/tensor/element.hpp"
#include "core/tensor/cuda.hpp"
#include "core/tensor/cuda/brief_wait.hpp"
#include "support/core/message_of.hpp"

namespace cohort {
namespace {

using test::message_of;
using testing::HasSubstr;

TEST(CudaStatus, SaysWhatThereIs) {
    const CudaStatus status = cuda_status();
    EXPECT_FALSE(status.detail.empty());
    EXPECT_TRUE(status.compiled || status.device_count == 0);
}

TEST(MakeDevice, TakesTheCpuWhereThereIsNoGpuAndRefusesOneThatIsAskedFor) {
    const CudaStatus status = cuda_status();
    EXPECT_EQ(make_device("auto", 1)->kind(),
              usable_gpus().count > 0 ? DeviceKind::kCuda : DeviceKind::kCpu);
    EXPECT_EQ(make_device("cpu", 1)->kind(), DeviceKind::kCpu);
    const std::string none = "cuda:" + std::to_string(status.device_count);
    try {
        static_cast<void>(make_device(none, 1));
        FAIL() << "a GPU that is not there";
    } catch (const DeviceError& error) {
        EXPECT_EQ(error.exit_code(), ExitCode::kDevice);
        EXPECT_THAT(error.what(), HasSubstr(none));
        EXPECT_THAT(error.what(), HasSubstr("--device cpu"));
    }
    for (const char* wrong : {"", "gpu", "cuda:", "cuda:-1", "cuda:1x", "CUDA"}) {
        EXPECT_THROW(static_cast<void>(make_device(wrong, 1)), UsageError) << wrong;
    }
}

TEST(MakeDevice, RefusesToTreatOtherDevicesAsGpus) {
    const auto cpu = make_cpu_device(1);
    const auto stream = cpu->create_stream();
    EXPECT_THROW(static_cast<void>(cuda::gpu_facts(*cpu)), DeviceError);
    EXPECT_THROW(cuda::use(*cpu), DeviceError);
    EXPECT_THROW(static_cast<void>(cuda::native_stream(*stream)), DeviceError);
}

TEST(CpuStream, RecordsNothing) {
    const auto cpu = make_cpu_device(1);
    const auto stream = cpu->create_stream();
    EXPECT_FALSE(stream->begin_recording());
    EXPECT_EQ(stream->end_recording(), nullptr);
}

/// Goes on by 7 us whenever it is looked at.
struct PlayedClock {
    using duration = std::chrono::microseconds;
    using time_point = std::chrono::time_point<std::chrono::steady_clock, duration>;
    static time_point now() { return time_point(duration(7 * looks++)); }
    static inline int looks = 0;
};

TEST(DoneSoon, AsksAtOnceAndNoLongerThanItSays) {
    int asked = 0;
    EXPECT_TRUE(cuda::done_soon<PlayedClock>([&] { return ++asked == 1; }));
    EXPECT_EQ(asked, 1);
    asked = 0;
    EXPECT_TRUE(cuda::done_soon<PlayedClock>([&] { return ++asked == 5; }));
    EXPECT_EQ(asked, 5);
    asked = 0;
    EXPECT_FALSE(cuda::done_soon<PlayedClock>([&] { return ++asked == 0; }));
    EXPECT_EQ(asked, 8) << "50 us";
}

TEST(Precision, HasNamesAndTypes) {
    for (const Precision precision :
         {Precision::kF32, Precision::kTf32, Precision::kBf16, Precision::kF16}) {
        EXPECT_EQ(parse_word<Precision>(word_of(precision), "--precision"), precision);
    }
    EXPECT_EQ(activation_type(Precision::kTf32), ElementType::kF32);
    EXPECT_EQ(element_bytes(activation_type(Precision::kF16)), 2U);
    EXPECT_THAT(message_of<UsageError>(
                    [] { static_cast<void>(parse_word<Precision>("fp16", "--precision")); }),
                HasSubstr("fp16"));
}

}  // namespace
}  // namespace cohort
