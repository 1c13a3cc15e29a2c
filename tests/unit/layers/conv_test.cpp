// The choice of a convolution's algorithm, and how accurate Winograd is; gpu/layers_test.cpp
// compares convolutions of all shapes with the reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "layers/cpu/dnnl_support.hpp"
#include "support/core/file_bytes.hpp"
#include "support/core/temp_folder.hpp"
#include "support/layers/reference_check.hpp"

namespace cohort::test {
namespace {

// Two convolutions of one shape that differ in nothing but padding, or in the order of their
// input, must not share a choice of algorithm that fits only one of them.
TEST(ConvChoice, IsNotSharedBetweenDifferentPaddings) {
    for (const bool deterministic : {true, false}) {
        TwinBuilder net(Shape{32, 8, 8});
        const Value x = net.conv(net.input(), {.channels = 32, .kernel = 1});
        const Value same = net.conv(x, {.channels = 32, .padding = 1});
        const Value wide = net.conv(x, {.channels = 32, .padding = 2});
        const Value none = net.conv(x, {.channels = 32});
        const Value plain = net.conv(net.input(), {.channels = 32, .padding = 1});
        const Value sum = net.add(same, plain);
        const Twin twin = net.finish_linear(net.concat({net.pool(sum, PoolKind::kGlobalAverage),
                                                        net.pool(wide, PoolKind::kGlobalAverage),
                                                        net.pool(none, PoolKind::kGlobalAverage)}));
        const CheckOptions options{.deterministic = deterministic, .tolerance = kWinogradTolerance};
        expect_matches(twin, std::vector<std::int64_t>{3}, options);
    }
}

// A second start measures nothing again: the file has the choice for this processor, and stays as
// it is. Whatever is chosen for another processor does not count here.
TEST(ConvChoice, IsKeptOnDiskForTheProcessor) {
    const TempFolder folder;
    const std::string file = folder.file("choices.txt");
    GraphBuilder net("one", Shape{32, 8, 8});
    const Graph graph =
        net.finish(net.flatten(net.conv(net.input(), {.channels = 32, .padding = 1})));
    const auto train = [&] {
        OwnedReplica owned(graph, make_cpu_device(1), {.tuning_file = file});
        owned.replica.initialise(1);
        owned.replica.train_step(random_batch(graph, 2, 1).view());
        return read_bytes(file);
    };
    const std::string first = train();
    EXPECT_THAT(first, testing::HasSubstr(kernel_machine()));
    EXPECT_EQ(train(), first);
    std::string other = first;
    for (std::size_t at = 0; (at = other.find("isa ", at)) != std::string::npos;) {
        other.replace(at, 4, "ISA ");
    }
    write_bytes(file, other);
    const std::string both = train();  // a second measurement may choose other algorithms
    EXPECT_THAT(both, testing::StartsWith(other));
    EXPECT_EQ(std::count(both.begin(), both.end(), '\n'),
              2 * std::count(first.begin(), first.end(), '\n'));
}

// The accuracy limit of Winograd: 1e-4 of the largest output. The fixed rule
// of deterministic mode takes Winograd for this shape wherever oneDNN has it.
TEST(ConvAccuracy, WinogradStaysWithinTenThousandth) {
    TwinBuilder net(Shape{64, 16, 16});
    const Value x = net.conv(net.input(), {.channels = 64, .kernel = 1});
    const Twin twin = net.finish(net.flatten(net.conv(x, {.channels = 64, .padding = 1})));
    OwnedReplica owned(twin.graph, 1, true);
    randomise(owned.replica, 2);
    const OwnedBatch batch = random_batch(twin.graph, 2, 2);
    const ReferenceResult wanted = run_reference(twin, owned.replica, batch, 0, false);
    std::vector<float> got(wanted.logits.size());
    owned.replica.infer(batch.view(), got);
    double error = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        error = std::max(error, std::abs(static_cast<double>(got[i]) - wanted.logits[i]));
    }
    EXPECT_LE(error, 1e-4 * largest(wanted.logits));
    RecordProperty("relative_error", std::to_string(error / largest(wanted.logits)));
}

}  // namespace
}  // namespace cohort::test
