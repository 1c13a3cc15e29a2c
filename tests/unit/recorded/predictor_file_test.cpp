#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/core/rng.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "data/hdf5/store.hpp"
#include "sched/recorded/predictor_file.hpp"
#include "support/core/message_of.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort {
namespace {

using testing::HasSubstr;

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

TEST(PredictorFiles, KeepAModel) {
    const TempFolder folder;
    const PredictorFile written = some_predictor();
    const std::string file = folder.file("model.h5");
    write_predictor(file, written);
    const PredictorFile read = read_predictor(file);
    EXPECT_EQ(read.trained_on, written.trained_on);
    EXPECT_EQ(read.model.feature_mean, written.model.feature_mean);
    EXPECT_EQ(read.model.feature_deviation, written.model.feature_deviation);
    EXPECT_EQ(read.model.time_mean, written.model.time_mean);
    EXPECT_EQ(read.model.time_deviation, written.model.time_deviation);
    EXPECT_EQ(read.model.parameters, written.model.parameters);
}

TEST(PredictorFiles, CanBeReadWhileOthersReadHdf5) {
    const Hdf5Thread others;
    EXPECT_EQ(shipped_predictor().model.parameters.size(),
              static_cast<std::size_t>(LstmModel::parameter_count()));
}

TEST(PredictorFiles, WhatIsWrongIsNamed) {
    const TempFolder folder;
    const std::string file = folder.file("model.h5");
    const auto message = [&](const std::string& path) {
        return test::message_of<FileError>([&] { (void)read_predictor(path); });
    };
    PredictorFile wrong = some_predictor();
    wrong.model.parameters.pop_back();
    write_predictor(file, wrong);
    EXPECT_THAT(message(file), HasSubstr(file + ":/parameters"));
    wrong = some_predictor();
    wrong.model.feature_mean[1] = std::nanf("");
    write_predictor(file, wrong);
    EXPECT_THAT(message(file), HasSubstr(file + ":/feature_mean"));
    {
        Hdf5Thread thread;
        StoreWriter other(file, {.name = "other", .version = 2}, thread);
        other.commit();
    }
    EXPECT_THAT(message(file), HasSubstr("cohort-predictor version 2"));
    std::ofstream(file) << "format = \"cohort-predictor 1\"\n";
    EXPECT_THAT(message(file), HasSubstr("cohort predictor train"));
    std::ofstream(file) << "x";
    EXPECT_THAT(message(file), HasSubstr("not a cohort store"));
    EXPECT_THROW((void)read_predictor(folder.file("none.h5")), FileError);
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
            before = last->predict().mean(0, 1);
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
    options.predictor_file = "/nowhere/model.h5";
    EXPECT_THROW((void)make_run_predictor(options, 2, 64), FileError);
    options.predictor = "ewma";
    EXPECT_EQ(make_run_predictor(options, 2, 64)->name(), "ewma") << "it needs no model";
}

}  // namespace
}  // namespace cohort
