#include "cohort/report/efficiency_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "cohort/core/error.hpp"
#include "least_squares.hpp"

namespace cohort {
namespace {

constexpr double kRidge = 0.01;         ///< of the terms' own mean squares, a row
constexpr int kRounds = 20;             ///< until it is settled what is above 1
constexpr double kEarnsItsKeep = 0.01;  ///< relative fall of the error

/// Values of some terms for every row.
Matrix values_of(const std::vector<EfficiencyRow>& rows, const std::vector<std::string>& terms) {
    const std::vector<std::string>& known = EfficiencyModel::term_names();
    std::vector<std::size_t> columns;
    for (const std::string& term : terms) {
        const auto found = std::find(known.begin(), known.end(), term);
        check_invariant(found != known.end(), "terms are those of the model");
        columns.push_back(static_cast<std::size_t>(found - known.begin()));
    }
    Matrix values;
    for (const EfficiencyRow& row : rows) {
        const std::vector<double> all = EfficiencyModel::terms_of(row.features);
        std::vector<double>& some = values.emplace_back();
        for (const std::size_t column : columns) {
            some.push_back(all[column]);
        }
    }
    return values;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double target_of(const EfficiencyRow& row) {
    return std::log(std::clamp(row.efficiency, EfficiencyModel::kLeast, 1.0));
}

/// Weights for fixed targets.
std::vector<double> ridge(const Matrix& values, const std::vector<double>& targets) {
    const std::size_t n = values.front().size();
    Matrix squares(n, std::vector<double>(n, 0.0));
    std::vector<double> products(n, 0.0);
    for (std::size_t row = 0; row < values.size(); ++row) {
        for (std::size_t i = 0; i < n; ++i) {
            products[i] += values[row][i] * targets[row];
            for (std::size_t j = 0; j < n; ++j) {
                squares[i][j] += values[row][i] * values[row][j];
            }
        }
    }
    for (std::size_t i = 0; i < n; ++i) {
        squares[i][i] = (1 + kRidge) * squares[i][i] + 1e-9;
    }
    return solve(std::move(squares), std::move(products));
}

std::string group_of(const EfficiencyRow& row, HoldOut hold_out) {
    return hold_out == HoldOut::kModel ? row.model
                                       : fmt::format("{} {}", row.lr, row.features.momentum);
}

std::vector<double> ranks_of(const std::vector<double>& values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
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

/// Every row by a model of the rows that are not in its group; of kNothing by one of all rows.
/// @param terms_for  terms of a model of such rows; without any of them every row is worth 1
template <class TermsFor>
std::vector<double> predict_groups(const std::vector<EfficiencyRow>& rows, HoldOut hold_out,
                                   const TermsFor& terms_for) {
    std::vector<double> predicted(rows.size(), 1.0);
    const bool all = hold_out == HoldOut::kNothing;
    std::set<std::string> groups;
    for (const EfficiencyRow& row : rows) {
        groups.insert(all ? "" : group_of(row, hold_out));
    }
    for (const std::string& group : groups) {
        std::vector<EfficiencyRow> others;
        std::copy_if(
            rows.begin(), rows.end(), std::back_inserter(others),
            [&](const EfficiencyRow& row) { return all || group_of(row, hold_out) != group; });
        const std::vector<std::string> terms =
            others.empty() ? std::vector<std::string>() : terms_for(others);
        if (terms.empty()) {
            continue;
        }
        const EfficiencyModel model(fit_efficiency(others, terms));
        for (std::size_t i = 0; i < rows.size(); ++i) {
            if (all || group_of(rows[i], hold_out) == group) {
                predicted[i] = model.efficiency(rows[i].features);
            }
        }
    }
    return predicted;
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
    return {.correlation = rank_correlation(predicted, measured),
            .error = std::sqrt(squares / static_cast<double>(rows.size()))};
}

EfficiencyCoefficients fit_efficiency(const std::vector<EfficiencyRow>& rows,
                                      const std::vector<std::string>& terms) {
    const Matrix values = values_of(rows, terms);
    std::vector<double> weights(terms.size(), 0.0);
    for (int round = 0; round < kRounds; ++round) {
        std::vector<double> targets;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const double target = target_of(rows[i]);
            const double guess = dot(values[i], weights);
            targets.push_back(target == 0 ? std::max(guess, 0.0) : target);
        }
        weights = ridge(values, targets);
    }
    return {.trained_on = fmt::format("{} plans", rows.size()), .terms = terms, .weights = weights};
}

std::vector<double> predict_held_out(const std::vector<EfficiencyRow>& rows,
                                     const std::vector<std::string>& terms, HoldOut hold_out) {
    return predict_groups(rows, hold_out,
                          [&](const std::vector<EfficiencyRow>& /*others*/) { return terms; });
}

std::vector<double> predict_chosen_without(const std::vector<EfficiencyRow>& rows,
                                           HoldOut hold_out) {
    return predict_groups(rows, hold_out, choose_terms);
}

std::vector<std::string> choose_terms(const std::vector<EfficiencyRow>& rows) {
    std::vector<std::string> chosen;
    EfficiencyScore reached = score_efficiency(rows, std::vector<double>(rows.size(), 1.0));
    while (true) {
        std::string best;
        EfficiencyScore with_best{.correlation = 0, .error = (1 - kEarnsItsKeep) * reached.error};
        for (const std::string& term : EfficiencyModel::term_names()) {
            if (std::find(chosen.begin(), chosen.end(), term) != chosen.end()) {
                continue;
            }
            std::vector<std::string> terms = chosen;
            terms.push_back(term);
            const EfficiencyScore with =
                score_efficiency(rows, predict_held_out(rows, terms, HoldOut::kModel));
            if (with.error < with_best.error && with.correlation >= reached.correlation) {
                with_best = with;
                best = term;
            }
        }
        if (best.empty()) {
            return chosen;
        }
        chosen.push_back(best);
        reached = with_best;
    }
}

}  // namespace cohort
