#include "report/fit/efficiency_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

namespace cohort {
namespace {

using Rows = std::vector<std::vector<double>>;  ///< [rows][columns]

constexpr double kRidge = 0.01;  ///< of the terms' own mean squares, a row
constexpr int kSweeps = 1000;    ///< of the coordinates: there are few

double dot(const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double target_of(const EfficiencyRow& row) {
    return std::log(std::clamp(row.efficiency, EfficiencyModel::kLeast, 1.0));
}

/// x >= 0 that minimises x a x / 2 - b x, one coordinate after the other. @param a  symmetric,
/// positive definite
std::vector<double> solve_not_negative(const Rows& a, const std::vector<double>& b) {
    std::vector<double> x(b.size(), 0.0);
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
        for (std::size_t i = 0; i < x.size(); ++i) {
            x[i] = std::max(0.0, x[i] + (b[i] - dot(a[i], x)) / a[i][i]);
        }
    }
    return x;
}

std::string group_of(const EfficiencyRow& row, HoldOut hold_out) {
    return hold_out == HoldOut::kNothing ? ""
           : hold_out == HoldOut::kModel ? row.model
                                         : fmt::format("{} {}", row.lr, row.features.momentum);
}

std::vector<double> ranks_of(const std::vector<double>& values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
    std::vector<double> ranks(values.size());
    for (std::size_t begin = 0; begin < order.size();) {
        std::size_t end = begin + 1;
        while (end < order.size() && values[order[end]] == values[order[begin]]) {
            ++end;
        }
        for (std::size_t i = begin; i < end; ++i) {
            ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
        }
        begin = end;
    }
    return ranks;
}

/// Identifies the situation in which one plan is chosen.
std::string choice_of(const EfficiencyRow& row) {
    const StalenessFeatures& f = row.features;
    return fmt::format("{} {} {} {} {}", row.model, row.lr, f.momentum, f.look_ahead, row.pattern);
}

struct Choice {
    double expected = 1;  ///< by prediction: ssgd's
    double reached = 1;
    double best = 1;
};

/// Choices by choice_of(). ssgd itself may be chosen, also among equals.
std::map<std::string, Choice> choices_of(const std::vector<EfficiencyRow>& rows,
                                         const std::vector<double>& predicted) {
    std::map<std::string, Choice> choices;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        Choice& choice = choices[choice_of(rows[i])];
        const double worth = rows[i].pace * rows[i].efficiency;
        const double expected = rows[i].pace * predicted.at(i);
        if (expected > choice.expected) {
            choice.expected = expected;
            choice.reached = worth;
        }
        choice.best = std::max(choice.best, worth);
    }
    return choices;
}

}  // namespace

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
    std::vector<double> x = ranks_of(a);
    std::vector<double> y = ranks_of(b);
    const double middle = static_cast<double>(a.size() - 1) / 2;
    for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] -= middle;
        y[i] -= middle;
    }
    const double scale = std::sqrt(dot(x, x) * dot(y, y));
    return scale > 0 ? dot(x, y) / scale : 0;
}

EfficiencyScore score_efficiency(const std::vector<EfficiencyRow>& rows,
                                 const std::vector<double>& predicted) {
    std::vector<double> measured;
    double squares = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        measured.push_back(target_of(rows[i]));
        const double guess = std::log(std::clamp(predicted.at(i), EfficiencyModel::kLeast, 1.0));
        squares += (guess - measured[i]) * (guess - measured[i]);
    }
    EfficiencyScore score{.correlation = rank_correlation(predicted, measured),
                          .error = std::sqrt(squares / static_cast<double>(rows.size()))};
    const std::map<std::string, Choice> choices = choices_of(rows, predicted);
    for (const auto& [where, choice] : choices) {
        const double regret = 1 - choice.reached / choice.best;
        score.mean_regret += regret / static_cast<double>(choices.size());
        score.worst_regret = std::max(score.worst_regret, regret);
    }
    return score;
}

EfficiencyCoefficients fit_efficiency(const std::vector<EfficiencyRow>& rows) {
    const std::vector<std::string>& terms = EfficiencyModel::term_names();
    Rows squares(terms.size(), std::vector<double>(terms.size(), 0.0));
    std::vector<double> products(terms.size(), 0.0);
    for (const EfficiencyRow& row : rows) {
        const std::vector<double> values = EfficiencyModel::terms_of(row.features);
        for (std::size_t i = 0; i < terms.size(); ++i) {
            products[i] -= values[i] * target_of(row);
            for (std::size_t j = 0; j < terms.size(); ++j) {
                squares[i][j] += values[i] * values[j];
            }
        }
    }
    for (std::size_t i = 0; i < terms.size(); ++i) {
        squares[i][i] = (1 + kRidge) * squares[i][i] + 1e-9;
    }
    return {.trained_on = fmt::format("{} plans", rows.size()),
            .terms = terms,
            .weights = solve_not_negative(squares, products)};
}

std::vector<double> predict_held_out(const std::vector<EfficiencyRow>& rows, HoldOut hold_out) {
    std::vector<double> predicted(rows.size(), 1.0);
    const auto group = [hold_out](const EfficiencyRow& row) { return group_of(row, hold_out); };
    std::set<std::string> groups;
    std::ranges::transform(rows, std::inserter(groups, groups.end()), group);
    for (const std::string& one : groups) {
        std::vector<EfficiencyRow> others;
        std::ranges::copy_if(rows, std::back_inserter(others), [&](const auto& row) {
            return hold_out == HoldOut::kNothing || group(row) != one;
        });
        const EfficiencyModel model(fit_efficiency(others));
        for (std::size_t i = 0; i < rows.size(); ++i) {
            predicted[i] =
                group(rows[i]) == one ? model.efficiency(rows[i].features) : predicted[i];
        }
    }
    return predicted;
}

}  // namespace cohort
