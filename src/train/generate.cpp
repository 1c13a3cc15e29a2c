#include "cohort/train/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "cohort/core/error.hpp"
#include "cohort/core/require.hpp"
#include "cohort/core/rng.hpp"
#include "cohort/tensor/device.hpp"
#include "data/networks/model_file.hpp"
#include "train/run/evaluation.hpp"
#include "train/run/job_context.hpp"

namespace cohort {
namespace {

using Tokens = std::vector<std::int32_t>;

void check_generate(const GenerateOptions& options) {
    require(options.tokens >= 0, "--tokens", "0 or more", std::to_string(options.tokens));
    require(options.temperature >= 0 && std::isfinite(options.temperature), "--temperature",
            "0 or more", fmt::format("{}", options.temperature));
    require(options.top_k >= 0, "--top-k", "0 or more", std::to_string(options.top_k));
}

std::unique_ptr<Tokenizer> tokenizer_of(const ModelFile& model, const std::string& path) {
    if (!model.tokens || !model.vocabulary) {
        fail<FileError>(
            {.where = path,
             .what = model.tokens ? "the model has no vocabulary" : "the model does not read text",
             .expected = "a model trained on text that cohort import has made",
             .got = fmt::format("{} for samples {}", model.graph.name(),
                                to_string(Shape(model.sample_shape)))});
    }
    std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(*model.vocabulary, path);
    if (tokenizer->size() != model.classes) {
        fail<FileError>({.where = path,
                         .what = "the vocabulary does not fit the model",
                         .expected = fmt::format("{} tokens", model.classes),
                         .got = std::to_string(tokenizer->size())});
    }
    return tokenizer;
}

/// Words of the prompt that are not in the vocabulary.
std::string unknown_parts(const Tokenizer& tokenizer, std::string_view prompt) {
    std::string unknown;
    while (!prompt.empty()) {
        const std::size_t end = std::min(prompt.find_first_of(" \t\n\r"), prompt.size());
        const std::string_view part = prompt.substr(0, end);
        const Tokens tokens = tokenizer.encode(part);
        if (tokenizer.unknown() && std::ranges::count(tokens, *tokenizer.unknown()) > 0) {
            unknown += fmt::format("{}{}", unknown.empty() ? "" : ", ", part);
        }
        prompt.remove_prefix(std::min(end + 1, prompt.size()));
    }
    return unknown;
}

/// Predicts the token after others.
class NextToken {
public:
    explicit NextToken(Replica& replica)
        : replica_(replica),
          window_(static_cast<std::size_t>(replica.graph().positions())),
          logits_(static_cast<std::size_t>(replica.graph().outputs())) {}

    /// [classes], valid until the next call. @param tokens  at least one; the last ones count
    std::span<float> logits_after(std::span<const std::int32_t> tokens) {
        // What follows a position has no effect on it: the window is filled up with any token.
        const std::size_t known = std::min(tokens.size(), window_.size());
        std::ranges::fill(window_, 0);
        std::ranges::copy(tokens.last(known), window_.begin());
        replica_.infer({.size = 1, .tokens = window_.data()}, logits_);
        const std::size_t classes = logits_.size() / window_.size();
        return std::span(logits_).subspan((known - 1) * classes, classes);
    }

private:
    Replica& replica_;
    Tokens window_;
    std::vector<float> logits_;
};

/// Draws a token, or takes the likeliest, the first of equals.
std::int32_t chosen_token(std::span<const float> logits, const GenerateOptions& options, Rng& rng) {
    std::vector<std::int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const auto likelier = [&](std::int32_t a, std::int32_t b) {
        const float left = logits[static_cast<std::size_t>(a)];
        const float right = logits[static_cast<std::size_t>(b)];
        return left > right || (left == right && a < b);
    };
    std::ranges::sort(order, likelier);
    if (options.temperature == 0) {
        return order.front();
    }
    if (options.top_k > 0) {
        order.resize(std::min(order.size(), static_cast<std::size_t>(options.top_k)));
    }
    const auto most = static_cast<double>(logits[static_cast<std::size_t>(order.front())]);
    std::vector<double> sums;
    for (const std::int32_t token : order) {
        const auto logit = static_cast<double>(logits[static_cast<std::size_t>(token)]);
        sums.push_back((sums.empty() ? 0 : sums.back()) +
                       std::exp((logit - most) / options.temperature));
    }
    const double draw = static_cast<double>(rng.next_uniform()) * sums.back();
    const auto found = std::ranges::upper_bound(sums, draw);
    return order[std::min(static_cast<std::size_t>(found - sums.begin()), order.size() - 1)];
}

}  // namespace

GeneratedText generate_text(const GenerateOptions& options) {
    check_generate(options);
    Hdf5Thread hdf5;
    const ModelFile model = read_model(options.model_file, hdf5);
    const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of(model, options.model_file);
    check_utf8(options.prompt, "--prompt");
    Tokens tokens = tokenizer->encode(options.prompt);
    const bool nothing = tokens.empty();
    if (nothing) {
        tokens = tokenizer->encode("\n");
    }
    const std::unique_ptr<Device> device = make_device(options.device, options.threads);
    Replica replica(model.graph, *device,
                    replica_options(*device, options.precision, false, options.tuning_file));
    load_model(model, replica);
    NextToken next(replica);
    Rng rng(options.seed, RngPurpose::kGenerate);
    for (std::int64_t i = 0; i < options.tokens; ++i) {
        const std::span<float> logits = next.logits_after(tokens);
        if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) {
            fail<NumericalError>({.where = options.model_file,
                                  .what = "the model's outputs are not finite",
                                  .expected = "parameters that are numbers",
                                  .hint = "the model of another run"});
        }
        if (tokenizer->unknown()) {
            logits[static_cast<std::size_t>(*tokenizer->unknown())] =
                -std::numeric_limits<float>::infinity();
        }
        tokens.push_back(chosen_token(logits, options, rng));
    }
    return {.text = tokenizer->decode(std::span(tokens).subspan(nothing ? 1 : 0)),
            .unknown = unknown_parts(*tokenizer, options.prompt)};
}

}  // namespace cohort
