// The model zoo: sizes known by arithmetic, shapes it takes and refuses, initial values, learning.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cohort/core/error.hpp"
#include "cohort/model/zoo.hpp"
#include "support/core/message_of.hpp"
#include "support/layers/reference_check.hpp"

namespace cohort::test {
namespace {

/// 3x3 or other square convolution without bias, and its batch norm.
std::int64_t conv_norm(std::int64_t in, std::int64_t out, std::int64_t kernel) {
    return in * out * kernel * kernel + 2 * out;
}

/// He et al. 2016, section 4.2: n blocks of two convolutions in each of three stages, here with
/// projections where the size changes.
std::int64_t cifar_resnet_size(std::int64_t blocks) {
    std::int64_t sum = conv_norm(3, 16, 3);
    std::int64_t in = 16;
    for (const std::int64_t out : {16, 32, 64}) {
        sum += in == out ? 0 : conv_norm(in, out, 1);
        sum += conv_norm(in, out, 3) + (2 * blocks - 1) * conv_norm(out, out, 3);
        in = out;
    }
    return sum + 64 * 10 + 10;
}

/// Huang et al. 2017: each layer reads 32 channels more than the one before it.
std::int64_t densenet_size(std::int64_t stem, std::int64_t classes) {
    std::int64_t sum = stem;
    std::int64_t channels = 64;
    for (const std::int64_t layers : {6, 12, 24, 16}) {
        for (std::int64_t layer = 0; layer < layers; ++layer, channels += 32) {
            sum += 2 * channels + channels * 128 + 2 * 128 + 128 * 32 * 9;
        }
        if (layers != 16) {
            sum += 2 * channels + channels * channels / 2;
            channels /= 2;
        }
    }
    return sum + 2 * channels + channels * classes + classes;
}

/// Sandler et al. 2018, table 2, with an expansion in every block and projections at stride 1.
std::int64_t mobilenet_size(std::int64_t classes) {
    struct Row {
        std::int64_t expansion, channels, blocks;
        bool halves;
    };
    std::int64_t sum = conv_norm(3, 32, 3);
    std::int64_t in = 32;
    for (const Row& row :
         {Row{1, 16, 1, false}, Row{6, 24, 2, false}, Row{6, 32, 3, true}, Row{6, 64, 4, true},
          Row{6, 96, 3, false}, Row{6, 160, 3, true}, Row{6, 320, 1, false}}) {
        for (std::int64_t block = 0; block < row.blocks; ++block, in = row.channels) {
            const std::int64_t wide = row.expansion * in;
            sum +=
                conv_norm(in, wide, 1) + conv_norm(1, wide, 3) + conv_norm(wide, row.channels, 1);
            const bool projects = block == 0 && !row.halves;
            sum += projects ? conv_norm(in, row.channels, 1) : 0;
        }
    }
    return sum + conv_norm(320, 1280, 1) + 1280 * classes + classes;
}

/// With biases: a, b, c, d, e, f of a row of the table in Szegedy et al. 2015.
std::int64_t inception_size(std::int64_t in, const std::array<std::int64_t, 6>& row) {
    const auto& [a, b, c, d, e, f] = row;
    return conv_norm(in, a, 1) + a + conv_norm(in, b, 1) + b + conv_norm(b, c, 3) + c +
           conv_norm(in, d, 1) + d + conv_norm(d, e, 3) + e + conv_norm(e, e, 3) + e +
           conv_norm(in, f, 1) + f;
}

std::int64_t googlenet_size(std::int64_t stem, std::int64_t classes) {
    std::int64_t sum = stem;
    std::int64_t in = 192;
    for (const std::array<std::int64_t, 6>& row :
         {std::array<std::int64_t, 6>{64, 96, 128, 16, 32, 32},
          {128, 128, 192, 32, 96, 64},
          {192, 96, 208, 16, 48, 64},
          {160, 112, 224, 24, 64, 64},
          {128, 128, 256, 24, 64, 64},
          {112, 144, 288, 32, 64, 64},
          {256, 160, 320, 32, 128, 128},
          {256, 160, 320, 32, 128, 128},
          {384, 192, 384, 48, 128, 128}}) {
        sum += inception_size(in, row);
        in = row[0] + row[2] + row[4] + row[5];
    }
    return sum + in * classes + classes;
}

std::int64_t size_of(std::string_view model, const Shape& input, std::int64_t classes) {
    return make_model(model, input, classes).parameters().elements();
}

TEST(Zoo, HasTheSizesOfThePapers) {
    const Shape image{3, 32, 32};
    EXPECT_EQ(cifar_resnet_size(3), 272474);
    EXPECT_EQ(size_of("resnet20", image, 10), cifar_resnet_size(3));
    EXPECT_EQ(cifar_resnet_size(9), 855770);
    EXPECT_EQ(size_of("resnet56", image, 10), cifar_resnet_size(9));
    EXPECT_EQ(size_of("resnet50", Shape{3, 224, 224}, 1000), 25557032);
    // 14,714,688 in 13 convolutions with biases, 2 x 4,224 in batch norms, 5,130 at the end.
    EXPECT_EQ(size_of("vgg16", image, 10), 14714688 + 8448 + 5130);
    EXPECT_EQ(size_of("softmax", image, 10), 3072 * 10 + 10);
    EXPECT_EQ(size_of("mlp", Shape{784}, 10), 784 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10);
    EXPECT_EQ(size_of("smallcnn", Shape{1, 28, 28}, 10),
              (9 * 8 + 8) + (8 * 16 * 9 + 16) + (16 * 7 * 7 * 10 + 10));
    EXPECT_EQ(size_of("lenet", Shape{1, 28, 28}, 10),
              (20 * 25 + 20) + (50 * 20 * 25 + 50) + (50 * 25 * 500 + 500) + (5000 + 10));
}

TEST(Zoo, HasTheSizesOfStarsNetworks) {
    const Shape image{3, 32, 32};
    const Shape large{3, 224, 224};
    const std::int64_t convolutions = 64 * (3 * 121 + 1) + 192 * (64 * 25 + 1) +
                                      384 * (192 * 9 + 1) + 256 * (384 * 9 + 1) +
                                      256 * (256 * 9 + 1);
    EXPECT_EQ(size_of("alexnet", image, 10), convolutions + 2570);
    EXPECT_EQ(size_of("alexnet", large, 1000), convolutions + 7 * 7 * 256 * 1000 + 1000);
    // 9,404,992 in ten convolutions with biases, 2 x 2,944 in batch norms.
    EXPECT_EQ(size_of("vgg13", image, 10), 9404992 + 5888 + 5130);
    EXPECT_EQ(densenet_size(1728, 10), 6956298);
    EXPECT_EQ(size_of("densenet121", image, 10), 6956298);
    EXPECT_EQ(densenet_size(conv_norm(3, 64, 7), 1000), 7978856);  // as torchvision's
    EXPECT_EQ(size_of("densenet121", large, 1000), 7978856);
    EXPECT_EQ(googlenet_size(conv_norm(3, 192, 3) + 192, 10), 6166250);
    EXPECT_EQ(size_of("googlenet", image, 10), 6166250);
    EXPECT_EQ(size_of("googlenet", large, 1000),
              googlenet_size(conv_norm(3, 64, 7) + 64 + conv_norm(64, 64, 1) + 64 +
                                 conv_norm(64, 192, 3) + 192,
                             1000));
    EXPECT_EQ(mobilenet_size(10), 2296922);
    EXPECT_EQ(size_of("mobilenetv2", image, 10), 2296922);
    // The second stage halves large images, so nothing goes around it.
    EXPECT_EQ(size_of("mobilenetv2", large, 1000), mobilenet_size(1000) - conv_norm(16, 24, 1));
}

TEST(Zoo, LargeImagesReachTheLastBlockWithSevenPixels) {
    for (const std::string model :
         {"alexnet", "vgg13", "densenet121", "googlenet", "mobilenetv2"}) {
        const std::string text = describe(make_model(model, Shape{3, 224, 224}, 1000));
        EXPECT_NE(text.find(",7,7]"), std::string::npos) << model << "\n" << text;
    }
    // The bound between both forms.
    EXPECT_EQ(size_of("densenet121", Shape{3, 95, 200}, 10), densenet_size(1728, 10));
    EXPECT_EQ(size_of("densenet121", Shape{3, 96, 96}, 10), densenet_size(conv_norm(3, 64, 7), 10));
}

TEST(Zoo, CountsTheOperationsOfTraining) {
    // Two per multiply-add; the first layer of weights needs no gradient of its input.
    EXPECT_EQ(make_model("mlp", Shape{1, 28, 28}, 10).training_flops_per_sample(),
              2.0 * (2 * 784 * 256 + 3 * 256 * 256 + 3 * 256 * 10));
    EXPECT_EQ(make_model("smallcnn", Shape{1, 28, 28}, 10).training_flops_per_sample(),
              2.0 * (2 * 14 * 14 * 8 * 9 + 3 * 7 * 7 * 16 * 8 * 9 + 3 * 784 * 10));
}

TEST(Zoo, ListsLayersParametersAndOperations) {
    const Graph graph = make_model("smallcnn", Shape{1, 28, 28}, 10);
    EXPECT_EQ(graph.forward_flops_per_sample(),
              2.0 * (14 * 14 * 8 * 9 + 7 * 7 * 16 * 8 * 9 + 784 * 10));
    const std::string text = describe(graph);
    for (const char* line : {"layer                        kind                 output           "
                             "parameters        MFLOP",
                             "conv2                        conv+relu            [16,7,7]           "
                             "   1,168        0.113",
                             "total                                                                "
                             "   9,098        0.157"}) {
        EXPECT_NE(text.find(line), std::string::npos) << text;
    }
    // 41 million and 2.8 thousand million multiply-adds.
    EXPECT_NEAR(make_model("resnet20", Shape{3, 32, 32}, 10).forward_flops_per_sample(), 82e6, 1e6);
    EXPECT_NEAR(make_model("densenet121", Shape{3, 224, 224}, 1000).forward_flops_per_sample(),
                2 * 2.83e9, 0.05e9);
}

TEST(Zoo, EveryModelOfNumbersLearnsTargetsToo) {
    for (const std::string& model : model_names()) {
        const ModelInput input{.shape = {3, 32, 32}, .targets = 3};
        if (reads_text(model)) {
            EXPECT_THROW((void)make_model(model, input), ShapeError) << model;
            continue;
        }
        const Graph graph = make_model(model, input);
        EXPECT_EQ(graph.loss(), LossKind::kMeanSquaredError) << model;
        EXPECT_EQ(graph.outputs(), 3) << model;
        const Graph classes = make_model(model, Shape{3, 32, 32}, 3);
        EXPECT_EQ(classes.loss(), LossKind::kSoftmaxCrossEntropy) << model;
        EXPECT_EQ(graph.parameters().total(), classes.parameters().total()) << model;
    }
    EXPECT_EQ(make_model("softmax", {.shape = {7}, .targets = 1}).outputs(), 1);
}

TEST(Zoo, ALinearModelFindsTheTargetsOfALinearFunction) {
    OwnedReplica owned(make_model("softmax", {.shape = {2}, .targets = 1}), 1, true);
    owned.replica.initialise(1);
    const std::vector<float> samples{1, 0, 0, 1, -1, 0, 0, -1};  // y = 2 a - 3 b
    const std::vector<float> targets{2, -3, -2, 3};
    const BatchView batch{.samples = samples.data(), .size = 4, .targets = targets.data()};
    double loss = 0;
    for (int step = 0; step < 100; ++step) {
        const BatchResult result = owned.replica.train_step(batch);
        loss = result.loss_sum / static_cast<double>(result.samples);
        for (std::size_t i = 0; i < owned.replica.parameters().size(); ++i) {
            owned.replica.parameters()[i] -= 0.5F * owned.replica.gradients()[i];
        }
    }
    EXPECT_LT(loss, 1e-6);
}

struct TrainCase {
    std::string model;
    Shape input;
};

std::ostream& operator<<(std::ostream& out, const TrainCase& c) {
    return out << c.model << " on " << to_string(c.input);
}

std::vector<TrainCase> train_cases() {
    std::vector<TrainCase> cases{{"softmax", Shape{7}}, {"mlp", Shape{7}}};
    for (const std::string& model : model_names()) {
        if (reads_text(model)) {
            continue;  // text_zoo_test.cpp
        }
        cases.push_back({model, Shape{3, 32, 32}});
        cases.push_back({model, Shape{3, 33, 35}});
        if (model != "resnet50") {
            cases.push_back({model, Shape{1, 28, 28}});
        }
    }
    return cases;
}

class ZooStep : public ::testing::TestWithParam<TrainCase> {};

TEST_P(ZooStep, GivesEveryWeightAGradient) {
    const Graph graph = make_model(GetParam().model, GetParam().input, 10);
    EXPECT_GT(graph.training_flops_per_sample(), 2 * graph.parameters().elements());
    EXPECT_NE(describe(graph).find(graph.nodes().back().name), std::string::npos);
    OwnedReplica owned(graph, 1, true);
    owned.replica.initialise(1);
    const OwnedBatch batch = random_batch(graph, 3, 1);
    const BatchResult result = owned.replica.train_step(batch.view());
    EXPECT_TRUE(std::isfinite(result.loss_sum));
    for (const FlatRange& range : graph.parameters().ranges()) {
        const auto values = owned.replica.gradients().subspan(
            static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.size));
        EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float v) {
            return std::isfinite(v);
        })) << range.name;
        EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](float v) { return v != 0; }))
            << range.name;
    }
    EXPECT_TRUE(std::isfinite(owned.replica.evaluate(batch.view()).loss_sum));
}

INSTANTIATE_TEST_SUITE_P(Models, ZooStep, ::testing::ValuesIn(train_cases()), [](const auto& made) {
    std::string name = made.param.model;
    for (const std::int64_t extent : made.param.input.extents()) {
        name += "_" + std::to_string(extent);
    }
    return name;
});

TEST(Zoo, RefusesUnknownNamesAndListsTheKnown) {
    const std::string text = test::message_of<UsageError>([] {
        return make_model("resnet18", Shape{3, 32, 32}, 10);
    });
    EXPECT_NE(text.find("resnet18"), std::string::npos) << text;
    for (const std::string& name : model_names()) {
        EXPECT_NE(text.find(name), std::string::npos) << text;
    }
    EXPECT_THROW(static_cast<void>(make_model("mlp", Shape{4}, 1)), UsageError);
}

TEST(Zoo, RefusesInputsThatAreTooSmallOrNoImages) {
    for (const std::string& model : model_names()) {
        if (model == "softmax" || model == "mlp") {
            EXPECT_NO_THROW(static_cast<void>(make_model(model, Shape{1, 1, 1}, 2)));
            continue;
        }
        EXPECT_THROW(static_cast<void>(make_model(model, Shape{3, 3, 40}, 10)), ShapeError)
            << model;
        EXPECT_THROW(static_cast<void>(make_model(model, Shape{3072}, 10)), ShapeError) << model;
    }
}

std::pair<std::vector<float>, std::vector<float>> initial(const Graph& graph, std::uint64_t seed) {
    std::vector<float> parameters(static_cast<std::size_t>(graph.parameters().total()), -9.0F);
    std::vector<float> state(static_cast<std::size_t>(graph.state().total()), -9.0F);
    graph.initialise(seed, parameters, state);
    return {parameters, state};
}

TEST(Initialisation, DependsOnTheSeedAlone) {
    const Graph graph = make_model("resnet20", Shape{3, 32, 32}, 10);
    EXPECT_EQ(initial(graph, 5), initial(graph, 5));
    const auto [five, state] = initial(graph, 5);
    const auto [six, other] = initial(graph, 6);
    EXPECT_NE(five, six);
    EXPECT_EQ(state, other);
    OwnedReplica owned(graph, 2);
    owned.replica.initialise(5);
    EXPECT_TRUE(std::equal(five.begin(), five.end(), owned.replica.parameters().begin()));
    EXPECT_TRUE(std::equal(state.begin(), state.end(), owned.replica.state().begin()));
}

TEST(Initialisation, HasTheVarianceOfHe) {
    const Graph graph = make_model("resnet20", Shape{3, 32, 32}, 10);
    const auto [parameters, state] = initial(graph, 1);
    for (const FlatRange& range : graph.parameters().ranges()) {
        const auto begin = parameters.begin() + range.offset;
        if (range.shape.rank() == 1) {
            const bool is_scale = range.name.ends_with("weight");
            EXPECT_EQ(std::count(begin, begin + range.size, is_scale ? 1.0F : 0.0F), range.size)
                << range.name;
            EXPECT_FALSE(range.decay) << range.name;
            continue;
        }
        EXPECT_TRUE(range.decay) << range.name;
        double sum = 0;
        double square = 0;
        for (auto value = begin; value != begin + range.size; ++value) {
            sum += static_cast<double>(*value);
            square += static_cast<double>(*value) * static_cast<double>(*value);
        }
        const auto count = static_cast<double>(range.size);
        const double wanted = 2.0 * static_cast<double>(range.shape[0]) / count;  // 2 / fan-in
        // Five deviations of the estimates.
        EXPECT_NEAR(square / count, wanted, 5 * wanted * std::sqrt(2 / count)) << range.name;
        EXPECT_NEAR(sum / count, 0, 5 * std::sqrt(wanted / count)) << range.name;
    }
    for (const FlatRange& range : graph.state().ranges()) {
        const auto begin = state.begin() + range.offset;
        EXPECT_EQ(std::count(begin, begin + range.size,
                             range.name.ends_with("running_var") ? 1.0F : 0.0F),
                  range.size)
            << range.name;
    }
}

}  // namespace
}  // namespace cohort::test
