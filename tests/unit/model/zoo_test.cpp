// The model zoo: sizes known by arithmetic, shapes it takes and refuses, initial values, learning.
#include <gtest/gtest.h>

#include <algorithm>
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

TEST(Zoo, CountsTheOperationsOfTraining) {
    // Two per multiply-add; the first layer of weights needs no gradient of its input.
    EXPECT_EQ(make_model("mlp", Shape{1, 28, 28}, 10).training_flops_per_sample(),
              2.0 * (2 * 784 * 256 + 3 * 256 * 256 + 3 * 256 * 10));
    EXPECT_EQ(make_model("smallcnn", Shape{1, 28, 28}, 10).training_flops_per_sample(),
              2.0 * (2 * 14 * 14 * 8 * 9 + 3 * 7 * 7 * 16 * 8 * 9 + 3 * 784 * 10));
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
    EXPECT_NE(graph.describe().find(graph.nodes().back().name), std::string::npos);
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
