#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "data/dataset/text_file.hpp"
#include "sim/formats/base64.hpp"
#include "sim/formats/predictor_file.hpp"
#include "support/core/message_of.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort {
namespace {

std::vector<std::byte> bytes(const std::string& text) {
    std::vector<std::byte> out;
    for (const char c : text) {
        out.push_back(static_cast<std::byte>(c));
    }
    return out;
}

TEST(Base64, ExamplesOfTheStandard) {
    // RFC 4648, section 10.
    for (const auto& [plain, coded] : {std::pair<std::string, std::string>{"", ""},
                                       {"f", "Zg==\n"},
                                       {"fo", "Zm8=\n"},
                                       {"foo", "Zm9v\n"},
                                       {"foob", "Zm9vYg==\n"},
                                       {"fooba", "Zm9vYmE=\n"},
                                       {"foobar", "Zm9vYmFy\n"}}) {
        EXPECT_EQ(to_base64(bytes(plain)), coded);
        EXPECT_EQ(from_base64(coded), bytes(plain));
    }
}

TEST(Base64, LongTextsHaveLines) {
    std::string plain;
    for (int i = 0; i < 1000; ++i) {
        plain += static_cast<char>(i * 37);
    }
    const std::string coded = to_base64(bytes(plain));
    EXPECT_EQ(coded.find('\n'), 96U);
    EXPECT_EQ(from_base64(coded), bytes(plain));
}

TEST(Base64, OtherTextIsRefused) {
    for (const char* text : {"Zg=", "Zg==Zg==", "Z", "Zm9*", "====", "Zm9v Zm9v"}) {
        EXPECT_FALSE(from_base64(text)) << text;
    }
}

PredictorFile some_predictor() {
    PredictorFile predictor;
    predictor.trained_on = "records of a \"test\"\nof two lines";
    LstmModel& model = predictor.model;
    model.feature_mean = {0.9F, -0.1F, -0.2F, 0.3F};
    model.feature_deviation = {0.1F, 0.2F, 0.3F, 0.4F};
    model.time_mean = 0.25F;
    model.time_deviation = 0.75F;
    Rng random(3, RngPurpose::kPattern, 1);
    model.parameters.resize(static_cast<std::size_t>(LstmModel::parameter_count()));
    for (float& each : model.parameters) {
        each = random.next_normal();
    }
    return predictor;
}

TEST(PredictorFiles, KeepAModelToSixteenBits) {
    const TempFolder folder;
    const PredictorFile written = some_predictor();
    const std::string file = folder.file("model.toml");
    write_predictor(file, written);
    const PredictorFile read = read_predictor(file);
    EXPECT_EQ(read.trained_on, "records of a 'test''of two lines");
    EXPECT_EQ(read.model.feature_mean, written.model.feature_mean);
    EXPECT_EQ(read.model.feature_deviation, written.model.feature_deviation);
    EXPECT_EQ(read.model.time_mean, written.model.time_mean);
    EXPECT_EQ(read.model.time_deviation, written.model.time_deviation);
    ASSERT_EQ(read.model.parameters.size(), written.model.parameters.size());
    float most = 0;
    for (const float each : written.model.parameters) {
        most = std::max(most, std::abs(each));
    }
    for (std::size_t i = 0; i < read.model.parameters.size(); ++i) {
        EXPECT_NEAR(read.model.parameters[i], written.model.parameters[i], most / 60000);
    }
    write_predictor(file, read);
    EXPECT_EQ(read_predictor(file).model.parameters, read.model.parameters)
        << "what was rounded once stays as it is";
}

TEST(PredictorFiles, WhatIsWrongIsNamed) {
    const TempFolder folder;
    const std::string file = folder.file("model.toml");
    write_predictor(file, some_predictor());
    const std::string good = read_text_file(file);
    const auto message = [&](const std::string& from, const std::string& to) {
        std::string text = good;
        text.replace(text.find(from), from.size(), to);
        std::ofstream(file) << text;
        return test::message_of<FileError>([&] { return read_predictor(file); });
    };
    EXPECT_NE(message("cohort-predictor 1", "cohort-predictor 9").find("format"),
              std::string::npos);
    EXPECT_NE(message("feature_mean = [0.9, ", "feature_mean = [").find("feature_mean"),
              std::string::npos);
    EXPECT_NE(message("unit = [", "unit = \"").find("TOML"), std::string::npos);
    EXPECT_NE(message("\"\"\"\n", "\"\"\"\nAAAA").find("parameters"), std::string::npos);
    EXPECT_THROW((void)read_predictor(folder.file("none.toml")), FileError);
}

TEST(PredictorFiles, TheShippedModelKnowsAHog) {
    // Nodes come and go regularly: thirty slow, sixty quick. It has seen other ones.
    const auto model = load_predictor("");
    EXPECT_EQ(model, load_predictor("")) << "made once";
    const auto lstm = make_predictor("lstm", 1, 64, model);
    const auto last = make_predictor("last", 1, 64, nullptr);
    double lstm_error = 0;
    double last_error = 0;
    double at_s = 0;
    double said = 0;
    double before = 0;
    for (int t = 0; t < 720; ++t) {
        const bool slow = t % 90 >= 60;
        const double own_s = slow ? 2 : 1;
        if (t >= 360 && t % 10 == 0) {  // what was said ten iterations ago of now
            lstm_error += std::abs(said - own_s);
            last_error += std::abs(before - own_s);
        }
        at_s += own_s;
        const IterationRecord record{.samples = 64,
                                     .arrived_s = at_s,
                                     .compute_s = own_s,
                                     .use = {.cpu_share = slow ? 0.5 : 1}};
        lstm->add(record);
        last->add(record);
        if (t % 10 == 0) {
            said = static_cast<double>(lstm->predict().own_s[0][9]);
            before = last->predict().next(0);
        }
    }
    EXPECT_GT(last_error, 6.0);
    EXPECT_LT(lstm_error, last_error);
}

TEST(PredictorFiles, RunsGetThePredictorTheyAskFor) {
    ChooserOptions options;
    for (const char* name : {"last", "ewma", "episodes", "lstm", "auto"}) {
        options.predictor = name;
        EXPECT_EQ(make_run_predictor(options, 2, 64)->name(), name);
    }
    options.predictor_file = "/nowhere/model.toml";
    EXPECT_THROW((void)make_run_predictor(options, 2, 64), FileError);
    options.predictor = "ewma";
    EXPECT_EQ(make_run_predictor(options, 2, 64)->name(), "ewma") << "it needs no model";
}

}  // namespace
}  // namespace cohort
