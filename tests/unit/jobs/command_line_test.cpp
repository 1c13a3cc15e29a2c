#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "cohort/core/error.hpp"
#include "jobs/cli/command_line.hpp"
#include "jobs/cli/config_file.hpp"
#include "jobs/cli/job_options.hpp"
#include "support/core/message_of.hpp"
#include "support/core/temp_folder.hpp"
#include "train/run/option_list.hpp"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ConfigFile : public testing::Test {
protected:
    void SetUp() override { each_option(options, DeclareOptions{app}); }

    /// Parses a command line, then the config file's arguments before it, as the program does.
    void parse(std::vector<std::string> arguments, const std::string& config_text) {
        std::ofstream(path) << config_text;
        app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
        const ConfigArguments file = arguments_from_config(path, app);
        places = file.places;
        arguments.insert(arguments.begin(), file.arguments.begin(), file.arguments.end());
        app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    }

    std::string refused(const std::string& config_text) {
        return test::message_of<UsageError>([&] { parse({}, config_text); });
    }

    std::string origin(const std::string& name) const {
        for (const EffectiveOption& option : effective_options(app, places, "job.toml")) {
            if (option.name == name) {
                return option.value + " from " + option.origin;
            }
        }
        return "missing";
    }

    TempFolder folder;
    std::string path = folder.file("job.toml");
    CLI::App app{"", "train"};
    TrainOptions options;
    ConfigPlaces places;
};

TEST_F(ConfigFile, CommandLineWinsOverFileOverDefault) {
    parse({"--lr", "0.5", "--nesterov"}, R"(# a job
lr = 0.1
batch = 32
lr-schedule = "step:0.1@1000,2000"
deterministic = true
resume = false
)");
    EXPECT_EQ(options.lr, 0.5);
    EXPECT_EQ(options.batch, 32);
    EXPECT_EQ(options.lr_schedule, "step:0.1@1000,2000");
    EXPECT_TRUE(options.deterministic);
    EXPECT_TRUE(options.nesterov);
    EXPECT_FALSE(options.resume);
    EXPECT_EQ(options.momentum, 0.9);
    EXPECT_EQ(origin("lr"), "0.5 from command line");
    EXPECT_EQ(origin("batch"), "32 from job.toml");
    EXPECT_EQ(origin("deterministic"), "true from job.toml");
    EXPECT_EQ(origin("momentum"), "0.9 from default");
}

TEST_F(ConfigFile, SectionOfTheCommandIsRead) {
    parse({}, "[train]\nbatch = 7\n");
    EXPECT_EQ(options.batch, 7);
}

TEST_F(ConfigFile, UnknownKeysSectionsAndValuesAreErrors) {
    EXPECT_THROW(parse({}, "batchsize = 7\n"), UsageError);
    EXPECT_THROW(parse({}, "[eval]\nbatch = 7\n"), UsageError);
    EXPECT_THROW(parse({}, "nesterov = 1\n"), UsageError);
    EXPECT_THROW(parse({}, "help = true\n"), UsageError);
    EXPECT_THROW(parse({}, "batch = many\n"), UsageError);
    EXPECT_THROW(parse({}, "batch = \"many\"\n"), CLI::ParseError);
    EXPECT_THROW((void)arguments_from_config(folder.file("none"), app), FileError);
    EXPECT_THROW((void)arguments_from_config(folder.path(), app), FileError);
}

TEST_F(ConfigFile, DumpedOptionsComeBackTheSame) {
    const std::string odd = "a \"b\" c:\\new\n\x01 'x'";
    parse({"--out", odd, "--data", "my data.h5", "--lr", "1e-3", "--lr-schedule", "step:0.1@10,20"},
          "");
    const std::string text = config_text(effective_options(app, places, ""));
    EXPECT_THAT(text, HasSubstr("data = \"my data.h5\""));
    EXPECT_THAT(text, HasSubstr("batch = 128"));
    CLI::App again{"", "train"};
    TrainOptions read;
    each_option(read, DeclareOptions{again});
    std::ofstream(path) << text;
    ConfigArguments file = arguments_from_config(path, again);
    std::reverse(file.arguments.begin(), file.arguments.end());
    again.parse(file.arguments);
    EXPECT_EQ(read.out, odd);
    EXPECT_EQ(read.data, "my data.h5");
    EXPECT_EQ(read.lr, 1e-3);
    EXPECT_EQ(read.lr_schedule, "step:0.1@10,20");
    EXPECT_TRUE(file.places.contains("seed"));
}

TEST_F(ConfigFile, EmptyValuesAreErrorsThatNameFileAndKey) {
    for (const char* text :
         {"lr = 0.1\nmodel = \"\"\nbatch = 7\n", "\nmodel = '' # none\n", "\nmodel = []\n"}) {
        EXPECT_THAT(refused(text), HasSubstr("[" + path + ", line 2, model] the value is empty"));
    }
}

TEST_F(ConfigFile, ErrorsNameFileAndLine) {
    const auto at = [this](int line) { return "[" + path + ", line " + std::to_string(line); };
    EXPECT_THAT(refused("lr = 0.1\nbatchsize = 7\n"), HasSubstr(at(2) + ", batchsize]"));
    EXPECT_THAT(refused("\n[simulate]\nbatch = 7\n"), HasSubstr(at(3) + ", simulate.batch]"));
    EXPECT_THAT(refused("\n\nnesterov = 1\n"), HasSubstr(at(3) + ", nesterov] not a truth value"));
    EXPECT_THAT(refused("lr = 0.1\nmodel = \"lenet\nbatch = 1\n"), HasSubstr(at(2) + "]"));
    EXPECT_THAT(refused("batch = 7\nlr = 1\nbatch = 8\n"), HasSubstr(at(3) + "]"));
    EXPECT_THAT(
        refused("batch = 7\n[train]\nbatch = 8\n"),
        AllOf(HasSubstr(at(3) + ", train.batch] the key comes twice"), HasSubstr("line 1")));
    EXPECT_THAT(refused("batch = 7\ndata = 1979-05-27\n"), HasSubstr(at(2) + ", data]"));
    EXPECT_THAT(refused("lr = 0.1\nbatch = 9223372036854775808\n"), HasSubstr(at(2) + "]"));
}

TEST_F(ConfigFile, RefusedValuesAreFoundInTheFile) {
    const auto in_file = [](const std::string& message) {
        return test::message_of<UsageError>([&] {
            fail_in_config(message, {{"batch", "job.toml, line 3, batch"}});
        });
    };
    EXPECT_EQ(in_file("--batch: expected 1"), "[job.toml, line 3, batch] expected 1");
    EXPECT_EQ(in_file("[--batch] cannot be used"), "[job.toml, line 3, batch] cannot be used");
    EXPECT_EQ(in_file("[--batch, --lr] both"), "[job.toml, line 3, batch] both");
    for (const char* other : {"[--lr] cannot be used", "--batches: no", "[a.h5] no", "", "--"}) {
        EXPECT_EQ(in_file(other), "");
    }
}

TEST_F(ConfigFile, WhatCannotBeReadWholeIsAnError) {
    for (const char* text :
         {"batch = 7\nbatch = 8\n", "batch = 7\n[train]\nbatch = 8\n", "batch 7\n", "[train\n",
          "model = \"lenet\nbatch = 1\n", "data = my file.h5\n", "model = \"a\\q\"\n",
          "batch = 7 8\n", "model = 'x\n", "augment = [\"flip\"\n", "= 3\n"}) {
        EXPECT_THROW(parse({}, text), UsageError) << text;
    }
}

TEST_F(ConfigFile, TextsAndListsAndCommentsAreRead) {
    parse({}, R"(data = 'C:\new' # its file
model="mlp"#x
augment = [ "flip", "pad-crop:2", ]
out = "a \"b\" \\ \u0041 # = ["
)");
    EXPECT_EQ(options.data, R"(C:\new)");
    EXPECT_EQ(options.model, "mlp");
    EXPECT_EQ(options.augment, "flip,pad-crop:2");
    EXPECT_EQ(options.out, R"(a "b" \ A # = [)");
}

TEST_F(ConfigFile, CommandLineDecidesTheLengthAgainstTheFile) {
    parse({"--samples", "500"}, "epochs = 3\n");
    EXPECT_EQ(options.samples, 500);
    EXPECT_EQ(options.epochs, 0);
    EXPECT_EQ(origin("epochs"), "0 from default");
}

TEST_F(ConfigFile, LengthZeroOnTheCommandLineLeavesItToTheFile) {
    parse({"--samples", "0"}, "samples = 9\nepochs = 3\n");
    EXPECT_EQ(options.samples, 0);
    EXPECT_EQ(options.epochs, 3);
}

TEST_F(ConfigFile, NumbersThatDoNotFitAreErrors) {
    for (const std::vector<std::string>& wrong :
         std::vector<std::vector<std::string>>{{"--batch", "9999999999999999999999"},
                                               {"--seed", "-1"},
                                               {"--warmup-samples", "99999999999999999999"},
                                               {"--threads", "4294967297"},
                                               {"--lr", "inf"},
                                               {"--lr", "nan"},
                                               {"--lr", "1e999"},
                                               {"--batch", "1.5"},
                                               {"--batch", "0x10"}}) {
        std::vector<std::string> reversed{wrong[1], wrong[0]};
        EXPECT_THROW(app.parse(reversed), CLI::ValidationError) << wrong[0] << " " << wrong[1];
    }
    parse({"--batch", "010", "--seed", "18446744073709551615"}, "");
    EXPECT_EQ(options.batch, 10);
    EXPECT_EQ(origin("batch"), "10 from command line");
    EXPECT_EQ(options.seed, 18446744073709551615U);
}

TEST_F(ConfigFile, ListsKeepTheirEntries) {
    std::vector<std::string> inputs;
    app.add_option("--input", inputs);
    parse({}, "input = [\"a b.npy\", \"c,d.npy\"]\n");
    EXPECT_EQ(inputs, (std::vector<std::string>{"a b.npy", "c,d.npy"}));
    EXPECT_EQ(origin("input"), "[ \"a b.npy\", \"c,d.npy\" ] from job.toml");
    EXPECT_THAT(config_text(effective_options(app, places, "")),
                HasSubstr("input = [ \"a b.npy\", \"c,d.npy\" ]\n"));
}

}  // namespace
}  // namespace cohort
