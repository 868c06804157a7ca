"""The vocabulary of explanation: places, reasons, facts, their JSON and their terminal text. Imports no torch."""
