#include "sim/formats/predictor_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "cohort/core/error.hpp"
#include "data/dataset/text_file.hpp"
#include "sim/formats/base64.hpp"
#include "sim/formats/shipped_predictor.hpp"
#include "sim/formats/toml_text.hpp"

namespace cohort {
namespace {

constexpr std::string_view kPredictorFormat = "cohort-predictor 1";
constexpr double kMostWhole = std::numeric_limits<std::int16_t>::max();

std::string numbers(std::span<const float> values) {
    std::string text;
    for (const float each : values) {
        text += fmt::format("{}{}", text.empty() ? "" : ", ", each);
    }
    return text;
}

/// So that the largest one still fits.
double unit_of(const std::vector<float>& parameters) {
    float most = 0;
    for (const float each : parameters) {
        most = std::max(most, std::abs(each));
    }
    return most > 0 ? static_cast<double>(most) / kMostWhole : 1;
}

std::string packed(const std::vector<float>& parameters, double unit) {
    std::vector<std::byte> bytes;
    for (const float each : parameters) {
        const auto whole =
            static_cast<std::uint16_t>(std::lround(static_cast<double>(each) / unit));
        bytes.push_back(static_cast<std::byte>(whole & 255));
        bytes.push_back(static_cast<std::byte>(whole >> 8));
    }
    return to_base64(bytes);
}

class PredictorReader {
public:
    PredictorReader(const toml::table& table, const std::string& file)
        : table_(table), file_(file) {}

    PredictorFile read() {
        if (text("format") != kPredictorFormat) {
            refuse("format", "not a predictor that this program knows", kPredictorFormat);
        }
        PredictorFile read;
        read.trained_on = text("trained_on");
        LstmModel& model = read.model;
        array("feature_mean", model.feature_mean);
        array("feature_deviation", model.feature_deviation);
        std::array<float, 2> time{};
        array("time_mean_deviation", time);
        model.time_mean = time[0];
        model.time_deviation = time[1];
        std::array<float, 1> unit{};
        array("unit", unit);
        model.parameters = unpacked(static_cast<double>(unit[0]));
        return read;
    }

private:
    [[noreturn]] void refuse(std::string_view key, std::string_view what,
                             std::string_view expected) const {
        const toml::node* node = table_.get(key);
        const unsigned line =
            node == nullptr ? 1U : static_cast<unsigned>(node->source().begin.line);
        fail<FileError>({.where = fmt::format("{}, line {}, {}", file_, std::max(1U, line), key),
                         .what = what,
                         .expected = expected});
    }
    std::string text(std::string_view key) {
        const auto found = table_[key].value<std::string>();
        if (!found) {
            refuse(key, "missing, or not a text", "a text in quotes");
        }
        return *found;
    }
    template <std::size_t N>
    void array(std::string_view key, std::array<float, N>& values) {
        const toml::array* found = table_[key].as_array();
        bool good = found != nullptr && found->size() == N;
        for (std::size_t i = 0; good && i < N; ++i) {
            const auto number = (*found)[i].value<double>();
            good = number && std::isfinite(*number);
            values.at(i) = good ? static_cast<float>(*number) : 0;
        }
        if (!good) {
            refuse(key, "missing, or cannot be used", fmt::format("[{} numbers]", N));
        }
    }
    std::vector<float> unpacked(double unit) {
        const auto bytes = from_base64(text("parameters"));
        const auto count = static_cast<std::size_t>(LstmModel::parameter_count());
        if (!bytes || bytes->size() != 2 * count) {
            refuse("parameters", "cannot be used",
                   fmt::format("{} numbers of 16 bits in base64", count));
        }
        std::vector<float> parameters(count);
        for (std::size_t i = 0; i < count; ++i) {
            const auto low = std::to_integer<unsigned>((*bytes)[2 * i]);
            const auto high = std::to_integer<unsigned>((*bytes)[2 * i + 1]);
            const auto whole =
                static_cast<std::int16_t>(static_cast<std::uint16_t>(high << 8 | low));
            parameters[i] = static_cast<float>(whole * unit);
        }
        return parameters;
    }

    const toml::table& table_;
    std::string file_;
};

PredictorFile parse_predictor(std::string_view text, const std::string& file) {
    const toml::table table = parse_toml(text, file);
    return PredictorReader(table, file).read();
}

}  // namespace

void write_predictor(const OutputFile& file, const PredictorFile& predictor) {
    const LstmModel& model = predictor.model;
    std::string trained_on;
    for (const char c : predictor.trained_on) {
        trained_on += c == '"' || c == '\\' || (c >= 0 && c < ' ') ? '\'' : c;
    }
    const double unit = unit_of(model.parameters);
    replace_text_file(
        file,
        fmt::format("format = \"{}\"\ntrained_on = \"{}\"\n"
                    "feature_mean = [{}]\nfeature_deviation = [{}]\n"
                    "time_mean_deviation = [{}, {}]\nunit = [{}]\nparameters = \"\"\"\n{}\"\"\"\n",
                    kPredictorFormat, trained_on, numbers(model.feature_mean),
                    numbers(model.feature_deviation), model.time_mean, model.time_deviation, unit,
                    packed(model.parameters, unit)));
}

PredictorFile read_predictor(const std::string& file) {
    return parse_predictor(read_text_file(file), file);
}

PredictorFile shipped_predictor() {
    return parse_predictor(shipped_predictor_text(), "the shipped predictor");
}

std::shared_ptr<const LstmModel> load_predictor(const std::string& file) {
    if (!file.empty()) {
        return std::make_shared<const LstmModel>(read_predictor(file).model);
    }
    static const auto shipped = std::make_shared<const LstmModel>(shipped_predictor().model);
    return shipped;
}

std::shared_ptr<const LstmModel> model_of(const ChooserOptions& options) {
    return uses_model(options.predictor) ? load_predictor(options.predictor_file) : nullptr;
}

std::unique_ptr<Predictor> make_run_predictor(const ChooserOptions& options, int workers,
                                              std::int64_t batch) {
    return make_predictor(options.predictor, workers, batch, model_of(options));
}

}  // namespace cohort
